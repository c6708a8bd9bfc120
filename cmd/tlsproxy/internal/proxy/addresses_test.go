package proxy

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxyprotocol"
)

// looksLikeTCP is a name that whoever connects over a Unix socket can give its own end.
const looksLikeTCP = "192.0.2.9:80"

// TestNamesOfUnixSockets: what a client of a Unix socket calls its own end is no
// address, neither to backends nor to limits, also where a proxy in front tells it.
func TestNamesOfUnixSockets(t *testing.T) {
	t.Chdir(t.TempDir()) // the name is a relative path
	head := proxyproto.HeaderProxyFromAddrs(2, &net.UnixAddr{Net: "unix", Name: looksLikeTCP}, &net.UnixAddr{Net: "unix", Name: "/run/front"})
	told, err := head.Format()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		trust *proxyprotocol.Trust
		name  string
		head  []byte
	}{
		{nil, looksLikeTCP, nil},
		{&proxyprotocol.Trust{Unix: true, Timeout: time.Minute}, "", told},
	} {
		r := newRig(t, func(c *config.Config) { c.Headers.Forwarded, c.Limits.ConnectionsPerSource = true, 1 }, tellSource)
		path := filepath.Join(t.TempDir(), "front")
		r.behindAt("unix", path, test.trust, always(test.head))
		connect := func(name string) net.Conn {
			d := net.Dialer{}
			if name != "" {
				d.LocalAddr = &net.UnixAddr{Net: "unix", Name: name}
			}
			c, err := d.DialContext(context.Background(), "unix", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			return &headed{Conn: c, head: test.head}
		}
		r.dial = func(context.Context) (net.Conn, error) { return connect(test.name), nil }
		c := r.client(false)
		if status, body := r.get(c, "/"); status != 200 || body != `[] for=unknown;host=front.example;proto=https` {
			t.Errorf("%+v: %d %s", test.trust, status, body)
		}
		if err := tls.Client(connect(""), r.tlsConfig()).Handshake(); err == nil {
			t.Errorf("%+v: two clients of a Unix socket count as two sources", test.trust)
		} else if line := r.log.wait(`msg="connection shed"`); !strings.Contains(line, "limit=limits.connections_per_source") {
			t.Error(line)
		}
	}
}

// TestSources: who counts as one, and who does not.
func TestSources(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.9:1":                      "192.0.2.9",
		"[::ffff:192.0.2.9]:2":             "192.0.2.9",
		"[64:ff9b::192.0.2.9]:3":           "192.0.2.9",
		"[64:ff9b:1::192.0.2.9]:4":         "64:ff9b:1::", // of one network's own use (RFC 8215)
		"[2001:db8:0:1::1]:5":              "2001:db8:0:1::",
		"[2001:db8:0:1:ffff:ffff::ffff]:6": "2001:db8:0:1::",
		"[2001:db8:0:2::1]:7":              "2001:db8:0:2::",
		"[fe80::1%eth0]:8":                 "fe80::",
	} {
		tcp := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))
		if got := sourceOf(tcp); got.String() != want {
			t.Errorf("%s: %v, want %s", address, got, want)
		}
	}
	if got := sourceOf(&net.UnixAddr{Net: "unix", Name: looksLikeTCP}); got.IsValid() {
		t.Errorf("a Unix socket's name: %v", got)
	}
}

// TestNamesTooLong: no host has a name of more than 255 bytes, so that what backends
// are told of a client stays within what they take.
func TestNamesTooLong(t *testing.T) {
	r := newRig(t, nil, hello)
	for length, served := range map[int]bool{255: true, 256: false, 60000: false} {
		raw, err := r.dial(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		err = tls.Client(raw, &tls.Config{ServerName: strings.Repeat("a", length), InsecureSkipVerify: true}).Handshake()
		raw.Close()
		if got := fmt.Sprint(err); served != (err == nil) || !served && !strings.Contains(got, "unrecognized name") {
			t.Errorf("%d bytes: %s", length, got)
		}
	}
}
