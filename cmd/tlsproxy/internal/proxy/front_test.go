package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxyprotocol"
)

// loopback trusts the tests' own connections.
func loopback() *proxyprotocol.Trust {
	return &proxyprotocol.Trust{Prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Timeout: time.Minute}
}

// behind has the server listen for proxies in front too, and the rig's clients
// connect there, first sending what head returns.
func (r *rig) behind(trust *proxyprotocol.Trust, head func() []byte) {
	r.t.Helper()
	r.behindAt("tcp", "127.0.0.1:0", trust, head)
}

func (r *rig) behindAt(network, address string, trust *proxyprotocol.Trust, head func() []byte) {
	r.t.Helper()
	ln, err := net.Listen(network, address)
	if err != nil {
		r.t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- r.server.ServeBehind(ln, trust) }()
	r.t.Cleanup(func() {
		r.stop()
		if err := <-served; err != ErrClosed {
			r.t.Errorf("ServeBehind: %v", err)
		}
	})
	r.dial = func(ctx context.Context) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, ln.Addr().String())
		if err != nil {
			return nil, err
		}
		return &headed{Conn: c, head: head()}, nil
	}
}

// headed puts a header in front of the first bytes, in one segment with them.
type headed struct {
	net.Conn
	head []byte
}

func (h *headed) Write(b []byte) (int, error) {
	n := len(h.head)
	written, err := h.Conn.Write(append(h.head, b...))
	h.head = nil
	return max(written-n, 0), err
}

func (h *headed) CloseWrite() error { return h.Conn.(halfCloser).CloseWrite() }

// header is one of version 2 for a client of 192.0.2.7.
func header(t *testing.T, tlvs ...proxyproto.TLV) []byte {
	t.Helper()
	h := proxyproto.HeaderProxyFromAddrs(2, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 7}, &net.TCPAddr{IP: net.IPv4(198, 51, 100, 1), Port: 443})
	if err := h.SetTLVs(tlvs); err != nil {
		t.Fatal(err)
	}
	b, err := h.Format()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func always(b []byte) func() []byte { return func() []byte { return b } }

// tellSource answers with what a backend is told of the client.
func tellSource(w http.ResponseWriter, r *http.Request) {
	if alike := r.Header["X-Real-Ip"]; !slices.Equal(alike, r.Header["X-Forwarded-For"]) {
		fmt.Fprintf(w, "%q, but ", alike)
	}
	fmt.Fprintf(w, "%q %s", r.Header["X-Forwarded-For"], r.Header.Get("Forwarded"))
}

// TestFront: the client that a header names is the one that backends and the log
// are told of, over both HTTPs.
func TestFront(t *testing.T) {
	forBoth(t, func(t *testing.T, http2 bool) {
		r := newRig(t, func(c *config.Config) { c.Log.Requests, c.Headers.Forwarded = true, true }, tellSource)
		const client = `["192.0.2.7"] for=192.0.2.7;host=front.example;proto=https`
		const own = `["127.0.0.1"] for=127.0.0.1;host=front.example;proto=https`
		id := proxyproto.TLV{Type: proxyproto.PP2_TYPE_UNIQUE_ID, Value: []byte("id\n7")}
		for _, test := range []struct {
			head []byte
			want string
		}{
			{header(t, id), client},
			{[]byte("PROXY TCP4 192.0.2.7 198.51.100.1 7 443\r\n"), client},
			{[]byte("PROXY TCP6 2001:db8::7 2001:db8::1 7 443\r\n"), `["2001:db8::7"] for="[2001:db8::7]";host=front.example;proto=https`},
			{[]byte("PROXY UNKNOWN\r\n"), own},
			{proxyprotocol.Local(proxyprotocol.V2), own},
		} {
			r.behind(loopback(), always(test.head))
			if status, body := r.get(r.client(http2), "/"); status != 200 || body != test.want {
				t.Errorf("%q: %d %s, want %s", test.head, status, body, test.want)
			}
		}
		line := r.log.wait("msg=request ")
		if !strings.Contains(line, "remote=192.0.2.7:7 ") || !strings.Contains(line, "via=127.0.0.1:") || !strings.Contains(line, `unique_id=id\x0a7 `) {
			t.Error(line)
		}
	})
}

// TestFrontRefuses connections that are not from proxies in front, or that have
// no header, or a faulty one, and says so once.
func TestFrontRefuses(t *testing.T) {
	elsewhere := &proxyprotocol.Trust{Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, Timeout: time.Minute}
	for _, test := range []struct {
		trust  *proxyprotocol.Trust
		head   string
		reason string
	}{
		{elsewhere, "", "the connection is not from one of listen.proxy_protocol.from"},
		{elsewhere, string(header(t)), "the connection is not from one of listen.proxy_protocol.from"},
		{loopback(), "", "the connection does not begin with a PROXY header"},
		{loopback(), "PROXY TCP4 192.0.2.7\r\n", "a faulty PROXY header: "},
	} {
		r := newRig(t, nil, hello)
		r.behind(test.trust, always([]byte(test.head)))
		raw, err := r.dial(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if err := tls.Client(raw, r.tlsConfig()).Handshake(); err == nil {
			t.Errorf("%q: the handshake went on", test.head)
		}
		raw.Close()
		if line := r.log.wait(`msg="connection refused"`); !strings.Contains(line, test.reason) || !strings.Contains(line, "remote=127.0.0.1:") {
			t.Error(line)
		}
		if st := r.server.Stats(); st.Shed != 1 {
			t.Errorf("%+v", st)
		}
	}
}

// TestFrontOptional: without a header a client speaks for itself, and a header of
// somebody who is not trusted is no header.
func TestFrontOptional(t *testing.T) {
	trust := loopback()
	trust.Optional = true
	r := newRig(t, nil, tellSource)
	r.behind(trust, always(nil))
	if _, body := r.get(r.client(false), "/"); !strings.HasPrefix(body, `["127.0.0.1"]`) {
		t.Error(body)
	}
	r.behind(trust, always(header(t)))
	if _, body := r.get(r.client(false), "/"); !strings.HasPrefix(body, `["192.0.2.7"]`) {
		t.Error(body)
	}
	trust = &proxyprotocol.Trust{Optional: true, Timeout: time.Minute}
	r.behind(trust, always(nil))
	if _, body := r.get(r.client(false), "/"); !strings.HasPrefix(body, `["127.0.0.1"]`) {
		t.Error(body)
	}
	r.behind(trust, always(header(t)))
	if _, err := r.client(false).Get("https://front.example/"); err == nil {
		t.Error("a header of somebody else was believed")
	}
	r.log.wait("first record does not look like a TLS handshake")
}

// TestFrontOnUnixSocket: whoever may connect there is believed, if asked for; and
// without a header nothing is known of the client.
func TestFrontOnUnixSocket(t *testing.T) {
	r := newRig(t, func(c *config.Config) { c.Headers.Forwarded = true }, tellSource)
	for i, test := range []struct {
		trust *proxyprotocol.Trust
		head  []byte
		want  string
	}{
		{&proxyprotocol.Trust{Unix: true, Timeout: time.Minute}, header(t), `["192.0.2.7"] for=192.0.2.7;host=front.example;proto=https`},
		{&proxyprotocol.Trust{Unix: true, Optional: true, Timeout: time.Minute}, nil, `[] for=unknown;host=front.example;proto=https`},
		{nil, nil, `[] for=unknown;host=front.example;proto=https`},
	} {
		r.behindAt("unix", filepath.Join(t.TempDir(), fmt.Sprint(i)), test.trust, always(test.head))
		if status, body := r.get(r.client(false), "/"); status != 200 || body != test.want {
			t.Errorf("%+v: %d %s, want %s", test.trust, status, body, test.want)
		}
	}
	r.behindAt("unix", filepath.Join(t.TempDir(), "networks"), loopback(), always(header(t)))
	if _, err := r.client(false).Get("https://front.example/"); err == nil {
		t.Error("a Unix socket's client counts as one of a network")
	}
}

// TestFrontLimits: handshakes are counted for the client, not for the proxy in
// front of it.
func TestFrontLimits(t *testing.T) {
	r := newRig(t, func(c *config.Config) { c.Limits.HandshakesPerSource = 1 }, hello)
	port := 0
	r.behind(loopback(), func() []byte {
		port++
		return fmt.Appendf(nil, "PROXY TCP4 192.0.2.%d 198.51.100.1 7 443\r\n", 1+port/2)
	})
	connect := func() net.Conn {
		raw, err := r.dial(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { raw.Close() })
		if _, err := raw.Write([]byte{22, 3, 1}); err != nil { // the beginning of a record
			t.Fatal(err)
		}
		return raw
	}
	connect() // 192.0.2.1
	connect() // 192.0.2.2
	shed := connect()
	if line := r.log.wait(`msg="connection shed"`); !strings.Contains(line, "remote=192.0.2.2:7 limit=limits.handshakes_per_source value=1") {
		t.Error(line)
	}
	if _, err := shed.Read(make([]byte, 1)); err == nil {
		t.Error("the connection over the limit is open")
	}
}

// TestFrontDrains: who has not sent a header yet holds nothing up.
func TestFrontDrains(t *testing.T) {
	r := newRig(t, nil, hello)
	r.behind(loopback(), always(nil))
	raw, err := r.dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.Write([]byte("PROXY")); err != nil {
		t.Fatal(err)
	}
	for r.server.Stats().Open == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := r.server.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if strings.Contains(r.log.String(), "connection refused") {
		t.Error(r.log)
	}
}

// TestFrontToBackends: in every mode a backend is told what the header said, and
// gets every byte that came behind that.
func TestFrontToBackends(t *testing.T) {
	type seen struct {
		header *proxyprotocol.Header
		bytes  string
	}
	connections := make(chan seen, 1)
	serve := func(c net.Conn) {
		h, ahead, err := (&proxyprotocol.Trust{Timeout: time.Minute}).Read(c)
		if err != nil {
			t.Error(err)
			return
		}
		rest, _ := io.ReadAll(c) // to the end of the client's direction
		io.WriteString(c, "answer")
		c.(*net.TCPConn).CloseWrite()
		connections <- seen{h, string(ahead) + string(rest)}
	}
	telling := pool(serveBytes(t, serve))
	telling.ProxyProtocol = config.SendProxyV2
	r := newRig(t, func(c *config.Config) {
		c.Pools = map[string]config.Pool{"telling": telling}
		c.Hosts = []config.Host{
			{Names: []config.HostName{"tcp.example.org"}, Mode: config.ModeTCP, Pool: "telling"},
			{Names: []config.HostName{"raw.example.org"}, Mode: config.ModePassthrough, Pool: "telling"},
		}
		c.Hosts[0].TLS.ALPN = []config.ProtocolName{"bytes"}
	}, hello)
	id := proxyproto.TLV{Type: proxyproto.PP2_TYPE_UNIQUE_ID, Value: []byte("id")}
	r.behind(loopback(), always(header(t, id)))

	raw, err := r.dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	c := tls.Client(raw, &tls.Config{RootCAs: r.roots, ServerName: "tcp.example.org", NextProtos: []string{"bytes"}, CurvePreferences: []tls.CurveID{tls.X25519MLKEM768}})
	if _, err := io.WriteString(c, "to the backend"); err != nil {
		t.Fatal(err)
	}
	c.CloseWrite()
	if answer, err := io.ReadAll(c); err != nil || string(answer) != "answer" {
		t.Errorf("tcp: %q, %v", answer, err)
	}
	got := <-connections
	h := got.header
	group, _ := h.SSL.SSLGroup()
	if got.bytes != "to the backend" || h.Source.String() != "192.0.2.7:7" || h.Destination.String() != "198.51.100.1:443" || h.UniqueID != "id" ||
		h.Authority != "tcp.example.org" || h.ALPN != "bytes" || !h.SSL.ClientSSL() || h.SSL.Verified() || group != "X25519MLKEM768" {
		t.Errorf("tcp: %q, %+v, group %q", got.bytes, h, group)
	}
	raw.Close()

	if raw, err = r.dial(context.Background()); err != nil {
		t.Fatal(err)
	}
	var sent bytes.Buffer
	hello := clientHello(t, "raw.example.org")
	sent.Write(hello)
	sent.WriteString("and more")
	if _, err := raw.Write(sent.Bytes()); err != nil {
		t.Fatal(err)
	}
	raw.(*headed).CloseWrite()
	if answer, err := io.ReadAll(raw); err != nil || string(answer) != "answer" {
		t.Errorf("passthrough: %q, %v", answer, err)
	}
	raw.Close()
	got = <-connections
	if h := got.header; got.bytes != sent.String() || h.Source.String() != "192.0.2.7:7" || h.UniqueID != "id" || h.Authority != "raw.example.org" || h.SSL != nil {
		t.Errorf("passthrough: %d bytes of %d, %+v", len(got.bytes), sent.Len(), h)
	}
}

// clientHello is the first record of a client for a server name.
func clientHello(t *testing.T, name string) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer theirs.Close()
	go func() {
		tls.Client(ours, &tls.Config{ServerName: name, CurvePreferences: []tls.CurveID{tls.X25519}}).Handshake()
		ours.Close()
	}()
	head := make([]byte, 5)
	if _, err := io.ReadFull(theirs, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(theirs, body); err != nil {
		t.Fatal(err)
	}
	return append(head, body...)
}

// TestBackendConnectionsOfClients: over HTTP a backend's connection is for one
// client, is named in the log by its backend, and ends with the client's.
func TestBackendConnectionsOfClients(t *testing.T) {
	ended := make(chan string, 10)
	serve := func(c net.Conn) {
		h, ahead, err := (&proxyprotocol.Trust{Timeout: time.Minute}).Read(c)
		if err != nil {
			t.Error(err)
			return
		}
		answers := 0
		r := bufio.NewReader(io.MultiReader(bytes.NewReader(ahead), c))
		for {
			request, err := http.ReadRequest(r)
			if err != nil {
				ended <- fmt.Sprint(answers, " for ", h.Source)
				return
			}
			answers++
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(request.Host), request.Host)
		}
	}
	telling := pool(serveBytes(t, serve))
	telling.URLs[0].Scheme = "http"
	telling.ProxyProtocol = config.SendProxyV1
	r := newRig(t, func(c *config.Config) {
		c.Log.Requests = true
		c.Pools = map[string]config.Pool{"telling": telling}
		c.Hosts = []config.Host{{Names: []config.HostName{"front.example"}, Mode: config.ModeHTTP, Pool: "telling"}}
	}, hello)
	for i, requests := range []int{3, 1} {
		c := r.connect()
		for range requests {
			if status, body := r.exchange(c, "front.example", "/"); status != 200 || body != "front.example" {
				t.Errorf("%d %s", status, body)
			}
		}
		local := c.LocalAddr().String()
		c.Close()
		if got := <-ended; got != fmt.Sprint(requests, " for ", local) {
			t.Errorf("connection %d: %s, want %d for %s", i, got, requests, local)
		}
	}
	if line := r.log.wait("msg=request "); !strings.Contains(line, "backend="+telling.URLs[0].Host+" ") {
		t.Error(line)
	}
}

// TestUpgradedBackendConnection: a connection that tells of a client can switch
// protocols, and its directions end one by one.
func TestUpgradedBackendConnection(t *testing.T) {
	sources := make(chan string, 1)
	telling := pool(serveBytes(t, func(c net.Conn) {
		h, ahead, err := (&proxyprotocol.Trust{Timeout: time.Minute}).Read(c)
		if err != nil {
			t.Error(err)
			return
		}
		sources <- h.Source.String()
		r := bufio.NewReader(io.MultiReader(bytes.NewReader(ahead), c))
		if _, err := http.ReadRequest(r); err != nil {
			t.Error(err)
			return
		}
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		all, _ := io.ReadAll(r) // to the end of the client's direction
		c.Write(append([]byte("echo of "), all...))
	}))
	telling.URLs[0].Scheme = "http"
	telling.ProxyProtocol = config.SendProxyV2
	r := newRig(t, func(c *config.Config) {
		c.Pools = map[string]config.Pool{"telling": telling}
		c.Hosts = []config.Host{{Names: []config.HostName{"front.example"}, Mode: config.ModeHTTP, Pool: "telling"}}
	}, hello)
	r.behind(loopback(), always(header(t)))
	c := r.connect()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: front.example\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(c)
	response, err := http.ReadResponse(in, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v, %v", response, err)
	}
	io.WriteString(c, "what was sent")
	c.CloseWrite()
	if answer, err := io.ReadAll(in); err != nil || string(answer) != "echo of what was sent" {
		t.Errorf("%q, %v", answer, err)
	}
	if source := <-sources; source != "192.0.2.7:7" {
		t.Error(source)
	}
}
