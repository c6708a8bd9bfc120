package interop

import (
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/interop/internal/outcome"
)

// TestFallback is about peers that do not agree on the first group of either:
// which group they meet on, whether it costs a HelloRetryRequest, and which key
// shares the client sent for it.
func TestFallback(t *testing.T) {
	three := []string{prime761, mlkem, x25519}
	for _, c := range []struct {
		name       string
		client     build
		clientArgs []string
		server     build
		serverArgs []string
		group      string // "" if the handshake has to fail
		version    string
		retry      bool
		shares     []string
		exit       outcome.Exit
	}{
		{name: "both with our defaults", client: hookClient, server: hookServer, group: prime761, shares: three},
		{name: "a stock server", client: hookClient, server: stockBuild, group: mlkem, shares: three},
		{name: "a stock client", client: stockBuild, server: hookServer, group: mlkem, shares: []string{mlkem, x25519}},
		{name: "a classical server", client: hookClient, server: stockBuild, serverArgs: []string{"--group", x25519}, group: x25519, shares: three},
		{name: "a classical client", client: stockBuild, clientArgs: []string{"--group", "X25519,P-256"}, server: hookServer, group: x25519, shares: []string{x25519}},
		{name: "a server of P-256", client: hookClient, server: stockBuild, serverArgs: []string{"--group", p256}, group: p256, retry: true, shares: three},
		{name: "the server's order, ours first", client: hookClient, clientArgs: []string{"--group", "X25519,X25519CTRUPrime761"}, server: hookServer,
			group: prime761, shares: []string{x25519, prime761}},
		{name: "the server's order, ours last", client: hookClient, clientArgs: []string{"--group", "X25519CTRUPrime761,X25519"}, server: hookServer,
			serverArgs: []string{"--group", "X25519,X25519CTRUPrime761"}, group: x25519, shares: []string{prime761, x25519}},
		{name: "a small hello", client: hookClient, clientArgs: []string{"--share", x25519}, server: hookServer, group: prime761, retry: true, shares: []string{x25519}},
		{name: "a small hello to a stock server", client: hookClient, clientArgs: []string{"--share", x25519}, server: stockBuild, group: mlkem, retry: true, shares: []string{x25519}},
		{name: "ours only", client: hookClient, clientArgs: []string{"--group", prime761}, server: hookServer, group: prime761, shares: []string{prime761}},
		{name: "without X25519MLKEM768", client: hookClient, clientArgs: []string{"--group", "X25519CTRUPrime761,X25519"}, server: hookServer, group: prime761, shares: []string{prime761, x25519}},
		{name: "TLS 1.2 server", client: hookClient, server: hookServer, serverArgs: []string{"--max-version", "1.2"}, group: x25519, version: "TLS 1.2", shares: three},
		{name: "TLS 1.2 client", client: hookClient, clientArgs: []string{"--max-version", "1.2"}, server: hookServer, group: x25519, version: "TLS 1.2"},
		{name: "ours required of a TLS 1.2 client", client: stockBuild, clientArgs: []string{"--max-version", "1.2"}, server: hookServer, serverArgs: []string{"--group", prime761},
			exit: outcome.AlertBase + outcome.HandshakeFailure},
		{name: "ours and TLS 1.3 required of a TLS 1.2 client", client: stockBuild, clientArgs: []string{"--max-version", "1.2"}, server: hookServer,
			serverArgs: []string{"--group", prime761, "--min-version", "1.3"}, exit: outcome.AlertBase + outcome.ProtocolVersion},
		{name: "different ones of ours", client: hookClient, clientArgs: []string{"--group", prime653}, server: hookServer, serverArgs: []string{"--group", prime1277},
			shares: []string{prime653}, exit: outcome.AlertBase + outcome.HandshakeFailure},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := startServer(t, c.server, c.serverArgs...)
			args := append([]string{e.address, "--ca", pki.CA, "--server-name", "localhost", "--get", "/"}, c.clientArgs...)
			d := dial(t, program(t, c.client, "client"), args...)
			got, seen := d.last(t), e.handshake()
			if d.exit != c.exit {
				t.Fatalf("exit %d, want %d: %v", d.exit, c.exit, got)
			}
			if (c.exit == outcome.OK) != (seen.Exit == outcome.OK) {
				t.Errorf("the server's end: %s", seen.Error)
			}
			if shares := groupNames(got.SharesSent); !slices.Equal(shares, c.shares) {
				t.Errorf("shares %v, want %v", shares, c.shares)
			}
			if c.group == "" {
				return
			}
			version := c.version
			if version == "" {
				version = "TLS 1.3"
			}
			for end, h := range map[string]outcome.Handshake{"client": got.Handshake, "server": seen.Handshake} {
				if h.Group == nil || h.Group.Name != c.group || h.HelloRetryRequest != c.retry || h.Version != version {
					t.Errorf("%s: %s, group %v, HelloRetryRequest %v; want %s, %s, %v", end, h.Version, h.Group, h.HelloRetryRequest, version, c.group, c.retry)
				}
			}
		})
	}
}

func groupNames(groups []outcome.Group) []string {
	var names []string
	for _, g := range groups {
		names = append(names, g.Name)
	}
	return names
}

// TestRefusals is about handshakes that fail for a reason of their own, with one
// of our groups agreed on: each has its alert, at the end that did not give up,
// and its exit status.
func TestRefusals(t *testing.T) {
	asking := startServer(t, hookServer, "--client-auth", "require", "--client-ca", pki.CA)
	http := startServer(t, hookServer, "--alpn", "h2")
	other := startServer(t, hookServer, "--client-auth", "request", "--client-ca", pki.OtherCA)
	trust := []string{"--ca", pki.CA, "--server-name", "localhost", "--await-close"}
	const ownAlert = outcome.AlertBase
	for _, c := range []struct {
		name         string
		server       *endpoint
		args         []string
		client, ends outcome.Exit // exit status of the client; class of the server's failure
	}{
		{"no client certificate", asking, trust, ownAlert + outcome.CertificateRequired, outcome.Local},
		{"client certificate of another authority", other, append([]string{"--cert", pki.ClientCert, "--key", pki.ClientKey}, trust...), ownAlert + outcome.UnknownCA, outcome.Certificate},
		{"no application protocol in common", http, append([]string{"--alpn", "spdy/1"}, trust...), ownAlert + outcome.NoApplicationProtocol, outcome.Local},
		{"server certificate of another authority", http, []string{"--ca", pki.OtherCA, "--server-name", "localhost"}, outcome.Certificate, ownAlert + outcome.BadCertificate},
		{"server certificate for another name", http, []string{"--ca", pki.CA, "--server-name", "example.com"}, outcome.Certificate, ownAlert + outcome.BadCertificate},
	} {
		d := dial(t, program(t, hookClient, "client"), append([]string{c.server.address}, c.args...)...)
		seen := c.server.handshake()
		if d.exit != c.client || seen.Exit != c.ends {
			t.Errorf("%s: client %d, server %d, want %d and %d: %v; %s", c.name, d.exit, seen.Exit, c.client, c.ends, d.last(t), seen.Error)
		}
		if seen.Group == nil || seen.Group.Name != prime761 {
			t.Errorf("%s: the server's group is %v", c.name, seen.Group)
		}
	}
	asking.lives(prime761, "--cert", pki.ClientCert, "--key", pki.ClientKey)
}

// The exit statuses that no TLS server is needed for.
func TestExitStatus(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	client := program(t, hookClient, "client")
	stock := program(t, stockBuild, "client")
	for _, c := range []struct {
		program string
		args    []string
		want    outcome.Exit
		says    string // on stderr or in the outcome
	}{
		{client, []string{closed.Addr().String()}, outcome.Connect, "refused"},
		{client, []string{silent.Addr().String(), "--timeout", "200ms"}, outcome.Timeout, "deadline"},
		{client, []string{"localhost"}, outcome.Usage, "missing port"},
		{client, []string{"localhost:1", "--group", "X25519CTRUPrime762"}, outcome.Usage, "X25519CTRUPrime762"},
		{client, []string{"localhost:1", "--share", "P-521"}, outcome.Usage, "not offered"},
		{client, []string{"localhost:1", "--group", "X25519", "--share", "X25519"}, outcome.Usage, "crypto/tls chooses"},
		{client, []string{"localhost:1", "--cert", pki.ClientCert}, outcome.Usage, "--key"},
		{client, []string{"localhost:1", "--ca", pki.ClientKey}, outcome.Usage, "no certificate"},
		{client, []string{"localhost:1", "--count", "0"}, outcome.Usage, "--count"},
		{client, []string{"localhost:1", "--get", "x"}, outcome.Usage, "starts with /"},
		{client, []string{"localhost:1", "--hello-size", "5000"}, outcome.Usage, "--alpn"},
		{client, []string{"localhost:1", "--no-such-flag"}, outcome.Usage, "no-such-flag"},
		{stock, []string{"localhost:1", "--group", "x25519ctruprime761"}, outcome.NoHook, "go tool gotls build"},
		{program(t, stockBuild, "server"), []string{"--cert", pki.ServerCert, "--key", pki.ServerKey, "--group", prime761}, outcome.NoHook, "go tool gotls build"},
		{program(t, hookServer, "server"), []string{"--cert", pki.ServerCert, "--key", pki.ServerKey, "--client-auth", "require"}, outcome.Usage, "--client-ca"},
	} {
		r := run(t, "", c.program, c.args...)
		if outcome.Exit(r.status) != c.want || !strings.Contains(r.stdout+r.stderr, c.says) {
			t.Errorf("%v: exit %d, want %d and %q in\n%s%s", c.args, r.status, c.want, c.says, r.stdout, r.stderr)
		}
	}
}

// Bytes go through unchanged in both directions, more than the windows hold.
func TestEcho(t *testing.T) {
	e := startServer(t, hookServer, "--echo")
	const size = 3 << 20
	d := dial(t, program(t, hookClient, "client"), e.address, "--ca", pki.CA, "--server-name", "localhost", "--echo", "3145728")
	if got := d.last(t); d.exit != outcome.OK || got.Echoed != size {
		t.Errorf("exit %d, %d bytes echoed, %v", d.exit, got.Echoed, got)
	}
}

// interop/server does end with its standard input: whoever started it may be gone.
func TestServerEndsWithStdin(t *testing.T) {
	r := run(t, "", program(t, hookServer, "server"), "--cert", pki.ServerCert, "--key", pki.ServerKey, "--end-with-stdin")
	if r.status != 0 || !strings.Contains(r.stdout, `"event":"listening"`) {
		t.Errorf("exit %d: %s%s", r.status, r.stdout, r.stderr)
	}
}
