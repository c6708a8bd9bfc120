package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/memnet"
)

// throng is a rig whose clients come from addresses that they choose.
type throng struct {
	*rig
	ln *crowd
}

// newThrong is for a synctest bubble; run end in the end.
func newThrong(t *testing.T, change func(*config.Config)) (g *throng, end func()) {
	t.Helper()
	g = &throng{newMemRig(t, change, hello), &crowd{Listener: memnet.Listen()}}
	served := make(chan error, 1)
	go func() { served <- g.server.Serve(g.ln) }()
	return g, func() {
		g.stop()
		<-served
	}
}

// dial connects from an address, and reports whether the connection was shed, which
// is to happen at once.
func (g *throng) dial(from string) (c net.Conn, shed bool) {
	g.t.Helper()
	g.ln.from = append(g.ln.from, from)
	c, err := g.ln.Dial(context.Background())
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { c.Close() })
	synctest.Wait()
	c.SetReadDeadline(time.Now())
	_, err = c.Read(make([]byte, 1))
	c.SetReadDeadline(time.Time{})
	return c, err == io.EOF
}

// wants checks what becomes of connections from addresses, one after the other.
func (g *throng) wants(shed bool, from ...string) {
	g.t.Helper()
	for _, at := range from {
		if _, got := g.dial(at); got != shed {
			g.t.Errorf("%s: shed %v", at, got)
		}
	}
}

// TestConnectionsPerSource: one source cannot take all connections, be they past
// their handshake or not.
func TestConnectionsPerSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, end := newThrong(t, func(c *config.Config) { c.Limits.ConnectionsPerSource, c.Limits.HandshakesPerSource = 3, 1 })
		g.rig.dial = func(ctx context.Context) (net.Conn, error) {
			g.ln.from = append(g.ln.from, "192.0.2.1:1")
			return g.ln.Dial(ctx)
		}
		first := g.connect()
		synctest.Wait()
		g.connect()
		synctest.Wait()
		g.wants(false, "192.0.2.1:3")
		g.wants(true, "192.0.2.1:4")
		if line := g.log.wait("connection shed"); !strings.Contains(line, "remote=192.0.2.1:4 limit=limits.connections_per_source value=3") {
			t.Error(line)
		}
		g.wants(false, "192.0.2.2:1")
		time.Sleep(time.Minute) // the handshakes of the two that say nothing time out
		first.Close()
		synctest.Wait()
		g.wants(false, "192.0.2.1:5")
		g.log.reset()
		g.wants(true, "192.0.2.1:6")
		if line := g.log.wait("connection shed"); !strings.Contains(line, "limit=limits.handshakes_per_source value=1") {
			t.Error(line)
		}
		end()
	})
}

// TestHandshakeRate: after a burst one source begins so many handshakes a second;
// others are not concerned, and a reload's rate holds at once.
func TestHandshakeRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, end := newThrong(t, func(c *config.Config) {
			c.Limits.HandshakeRatePerSource, c.Limits.HandshakeBurstPerSource = 2, 4
		})
		same := func(n int) []string {
			return strings.Split(strings.Repeat("[2001:db8::1]:1 ", n-1)+"[2001:db8::2]:1", " ")
		}
		g.wants(false, same(4)...)
		g.wants(true, same(2)...)
		if line := g.log.wait("connection shed"); !strings.Contains(line, "limit=limits.handshake_rate_per_source value=2") {
			t.Error(line)
		}
		g.wants(false, "192.0.2.1:1", "[2001:db8:0:1::1]:1")
		time.Sleep(500 * time.Millisecond)
		g.wants(false, same(1)...)
		g.wants(true, same(1)...)
		time.Sleep(time.Hour) // no more than a burst is saved
		g.wants(false, same(4)...)
		g.wants(true, same(1)...)
		changed := *g.config
		changed.Limits.HandshakeRatePerSource = 0
		o := g.options
		o.Config = &changed
		g.server.Update(o)
		g.wants(false, same(8)...)
		end()
	})
}

// TestSourcesAreForgotten: the rates of no more than so many sources are held.
func TestSourcesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, end := newThrong(t, func(c *config.Config) {
			c.Limits.HandshakeRatePerSource, c.Limits.HandshakeBurstPerSource, c.Limits.Sources = 1, 1, 2
		})
		g.wants(false, "192.0.2.1:1", "192.0.2.2:1")
		g.wants(true, "192.0.2.1:1", "192.0.2.2:1")
		g.wants(false, "192.0.2.3:1") // in the place of the first
		g.wants(true, "192.0.2.2:1")
		g.wants(false, "192.0.2.1:1")
		if n := g.server.books.rates.Len(); n != 2 {
			t.Errorf("%d rates are held", n)
		}
		end()
	})
}

// deaf is a client's connection on which nothing is heard: no more than the ClientHello
// is sent.
type deaf struct{ net.Conn }

func (deaf) Read([]byte) (int, error) { return 0, io.EOF }

var errRefused = errors.New("refused")

// awaitHost waits until no connection of a host is left.
func (r *rig) awaitHost(name string) {
	for {
		r.server.mu.Lock()
		left := r.server.books.hosts[name]
		r.server.mu.Unlock()
		if left == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// TestHostLimit: a host's connections are counted from the ClientHello on, whatever its
// mode; one too many is told, and costs the other hosts nothing.
func TestHostLimit(t *testing.T) {
	limited := func(name config.HostName, mode config.Mode, pool string, most int) config.Host {
		return config.Host{Names: []config.HostName{name}, Mode: mode, Pool: pool, Limits: config.HostLimits{Connections: most}}
	}
	r := newRig(t, func(c *config.Config) {
		c.Pools = map[string]config.Pool{"bytes": pool(serveBytes(t, func(c net.Conn) { io.Copy(c, c) }))}
		c.Hosts = []config.Host{limited("a.example.org", config.ModeHTTP, config.DefaultPool, 1), limited("b.example.org", config.ModeTCP, "bytes", 1),
			limited("c.example.org", config.ModePassthrough, "bytes", 1), limited("d.example.org", config.ModeHTTP, config.DefaultPool, 0)}
	}, hello)
	// open begins a handshake and, but in mode passthrough, ends it.
	open := func(name string) (net.Conn, error) {
		if name != "c.example.org" {
			return r.askFor(name)
		}
		raw, err := r.dial(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { raw.Close() })
		// The backend echoes the ClientHello, from its first byte on, which is that
		// of an alert where the connection is shed.
		const handshakeRecord = 22
		first := make([]byte, 1)
		tls.Client(deaf{raw}, &tls.Config{ServerName: name}).Handshake()
		if _, err := io.ReadFull(raw, first); err != nil || first[0] != handshakeRecord {
			return nil, errRefused
		}
		return raw, nil
	}
	for _, name := range []string{"a.example.org", "b.example.org", "c.example.org"} {
		first, err := open(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r.log.reset()
		if _, err := open(name); err == nil || err != errRefused && !strings.Contains(err.Error(), "remote error: tls: internal error") {
			t.Errorf("%s: a second connection: %v", name, err)
		}
		if line := r.log.wait("connection shed"); !strings.Contains(line, "level=WARN") || !strings.Contains(line, "limit=hosts.limits.connections value=1 host="+name) {
			t.Error(line)
		}
		for range 3 {
			if _, err := open("d.example.org"); err != nil {
				t.Errorf("another host: %v", err)
			}
		}
		first.Close()
		r.awaitHost(name)
		if _, err := open(name); err != nil {
			t.Errorf("%s: a free place was not given away: %v", name, err)
		}
	}
	if st := r.server.Stats(); st.Shed != 3 || st.Failed != 0 {
		t.Errorf("%+v", st)
	}
}

// TestURLLimit: a target that is too long is refused, and the connection goes on.
func TestURLLimit(t *testing.T) {
	forBoth(t, func(t *testing.T, http2 bool) {
		r := newRig(t, func(c *config.Config) { c.Limits.URLBytes = 200 }, hello)
		client := r.client(http2)
		for _, test := range []struct {
			path string
			want int
		}{
			{"/" + strings.Repeat("x", 199), http.StatusOK},
			{"/" + strings.Repeat("x", 200), http.StatusRequestURITooLong},
			{"/?" + strings.Repeat("%78", 66), http.StatusOK},
			{"/?" + strings.Repeat("%78", 67), http.StatusRequestURITooLong},
			{"/", http.StatusOK},
		} {
			if status, _ := r.get(client, test.path); status != test.want {
				t.Errorf("%d bytes: %d, want %d", len(test.path), status, test.want)
			}
		}
		if st := r.server.Stats(); st.Accepted != 1 {
			t.Errorf("%d connections", st.Accepted)
		}
	})
}
