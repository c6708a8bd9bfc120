package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

// serveBytes runs serve for each connection to a socket and returns the URL of
// a tcp backend.
func serveBytes(t *testing.T, serve func(net.Conn)) config.URL {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return config.URL{URL: &url.URL{Scheme: "tcp", Host: ln.Addr().String()}}
}

// serveHTTP is a backend that answers with a name and the path.
func serveHTTP(t *testing.T, name string) config.URL {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, name, " ", r.URL.Path) })}
	go b.Serve(ln)
	t.Cleanup(func() { b.Close() })
	return config.URL{URL: &url.URL{Scheme: "http", Host: ln.Addr().String()}}
}

func pool(urls ...config.URL) config.Pool { return config.Pool{URLs: urls} }

// askFor makes a TLS connection for a server name; "": for none.
func (r *rig) askFor(name string) (*tls.Conn, error) {
	r.t.Helper()
	raw, err := r.dial(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { raw.Close() })
	c := tls.Client(raw, &tls.Config{RootCAs: r.roots, ServerName: name, InsecureSkipVerify: name == ""})
	return c, c.Handshake()
}

// exchange sends one request on a connection.
func (r *rig) exchange(c *tls.Conn, host, path string) (int, string) {
	r.t.Helper()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host)
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body)
}

// TestHostsAndPaths sends requests for hosts and paths and sees which pool they
// reach, and that a connection is good for its own host only.
func TestHostsAndPaths(t *testing.T) {
	r := newRig(t, func(c *config.Config) {
		c.Pools = map[string]config.Pool{"web": pool(serveHTTP(t, "web")), "api": pool(serveHTTP(t, "api")), "any": pool(serveHTTP(t, "any"))}
		c.Hosts = []config.Host{
			{Names: []config.HostName{"www.example.org", "example.org"}, Mode: config.ModeHTTP, Pool: "web", Routes: []config.Route{{Path: "/api/", Pool: "api"}}},
			{Names: []config.HostName{"*.example.org"}, Mode: config.ModeHTTP, Pool: "any"},
		}
	}, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "default ", r.URL.Path) })
	for _, test := range []struct {
		sni, host, path string
		status          int
		body            string
	}{
		{"www.example.org", "www.example.org", "/", 200, "web /"},
		{"www.example.org", "WWW.Example.org:8443", "/api/x", 200, "api /api/x"},
		{"www.example.org", "www.example.org.", "/x/../api/y", 200, "api /x/../api/y"},
		{"www.example.org", "example.org", "/api", 200, "web /api"},
		{"other.example.org", "another.example.org", "/api/x", 200, "any /api/x"},
		{"front.example", "front.example", "/", 200, "default /"},
		{"", "h", "/", 200, "default /"},
		{"www.example.org", "other.example.org", "/", 421, "421 Misdirected Request\nThis connection is for another host.\n"},
		{"www.example.org", "front.example", "/", 421, "421 Misdirected Request\nThis connection is for another host.\n"},
		{"front.example", "www.example.org", "/", 421, "421 Misdirected Request\nThis connection is for another host.\n"},
		{"", "www.example.org", "/", 421, "421 Misdirected Request\nThis connection is for another host.\n"},
	} {
		c, err := r.askFor(test.sni)
		if err != nil {
			t.Fatal(err)
		}
		if status, body := r.exchange(c, test.host, test.path); status != test.status || body != test.body {
			t.Errorf("%q, Host %q, %s: %d %q, want %d %q", test.sni, test.host, test.path, status, body, test.status, test.body)
		}
	}
}

// TestUnknownHostIsRefused: with the alert that says why.
func TestUnknownHostIsRefused(t *testing.T) {
	r := newRig(t, func(c *config.Config) {
		c.UnknownHost = config.UnknownHostRefuse
		c.Hosts = []config.Host{{Names: []config.HostName{"front.example"}, Mode: config.ModeHTTP, Pool: config.DefaultPool}}
	}, hello)
	for _, name := range []string{"www.example.org", ""} {
		_, err := r.askFor(name)
		var alert *net.OpError
		if !errors.As(err, &alert) || alert.Op != "remote error" || alert.Err.Error() != "tls: unrecognized name" {
			t.Errorf("%q: %v", name, err)
		}
	}
	line := r.log.wait("sni=www.example.org")
	for _, want := range []string{`msg="TLS handshake failed"`, `reason="no host of that name is served"`, `alert_sent="unrecognized name"`} {
		if !strings.Contains(line, want) {
			t.Errorf("no %s in %s", want, line)
		}
	}
	c, err := r.askFor("front.example")
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := r.exchange(c, "front.example", "/"); status != 200 {
		t.Errorf("status %d", status)
	}
	if status, _ := r.exchange(c, "www.example.org", "/"); status != 421 {
		t.Errorf("another host on its connection: status %d", status)
	}
}

// tcpRig has the host db.example.org in mode tcp in front of one backend.
func tcpRig(t *testing.T, change func(*config.Config), serve func(net.Conn)) *rig {
	return newRig(t, func(c *config.Config) {
		c.Pools = map[string]config.Pool{"db": pool(serveBytes(t, serve))}
		c.Hosts = []config.Host{{Names: []config.HostName{"db.example.org"}, Mode: config.ModeTCP, Pool: "db"}}
		if change != nil {
			change(c)
		}
	}, hello)
}

// TestTCP: bytes reach the backend and come back, ends of directions too, from
// either side first, and the other hosts still speak HTTP.
func TestTCP(t *testing.T) {
	r := tcpRig(t, func(c *config.Config) { c.Log.Requests = true }, func(c net.Conn) {
		all, err := io.ReadAll(c)
		fmt.Fprintf(c, "read %d bytes, %v", len(all), err)
	})
	c, err := r.askFor("db.example.org")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.ConnectionState().NegotiatedProtocol; got != "" {
		t.Errorf("ALPN gave %q", got)
	}
	io.WriteString(c, strings.Repeat("x", 300_000))
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); string(got) != "read 300000 bytes, <nil>" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	line := r.log.wait("msg=connection")
	for _, want := range []string{"level=INFO", "mode=tcp", "sni=db.example.org", "group=X25519", "backend=127.0.0.1:", "bytes=24 bytes_received=300000", "pool=db", "backend_duration=", "version=\"TLS 1.3\"", "resumed=false", "handshake=", "duration="} {
		if !strings.Contains(line, want) {
			t.Errorf("no %s in %s", want, line)
		}
	}
	if status, body := r.get(r.client(true), "/"); status != 200 || body != "hello" {
		t.Errorf("%d %q", status, body)
	}
}

// TestTCPBackendEndsFirst: its end reaches the client, whose direction goes on.
func TestTCPBackendEndsFirst(t *testing.T) {
	got := make(chan string, 1)
	r := tcpRig(t, nil, func(c net.Conn) {
		fmt.Fprint(c, "all I have to say")
		c.(*net.TCPConn).CloseWrite()
		all, err := io.ReadAll(c)
		got <- fmt.Sprint(string(all), err)
	})
	c, err := r.askFor("db.example.org")
	if err != nil {
		t.Fatal(err)
	}
	if all, err := io.ReadAll(c); string(all) != "all I have to say" || err != nil {
		t.Errorf("%q, %v", all, err)
	}
	io.WriteString(c, "still here")
	c.CloseWrite()
	if got := <-got; got != "still here<nil>" {
		t.Errorf("the backend read %s", got)
	}
}

// TestTCPBackendIsDown: the client's connection ends, and the log says why.
func TestTCPBackendIsDown(t *testing.T) {
	r := newRig(t, func(c *config.Config) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ln.Close()
		c.Pools = map[string]config.Pool{"db": pool(config.URL{URL: &url.URL{Scheme: "tcp", Host: ln.Addr().String()}})}
		c.Hosts = []config.Host{{Names: []config.HostName{"db.example.org"}, Mode: config.ModeTCP, Pool: "db"}}
	}, hello)
	c, err := r.askFor("db.example.org")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("%d bytes, %v", n, err)
	}
	line := r.log.wait("no backend took a connection")
	for _, want := range []string{"level=WARN", "mode=tcp", "sni=db.example.org", "connection refused"} {
		if !strings.Contains(line, want) {
			t.Errorf("no %s in %s", want, line)
		}
	}
}

// TestTCPLimit: connections in mode tcp count as requests.
func TestTCPLimit(t *testing.T) {
	entered := make(chan bool, 1)
	r := tcpRig(t, func(c *config.Config) { c.Limits.Requests = 1 }, func(c net.Conn) {
		entered <- true
		io.Copy(io.Discard, c)
	})
	first, err := r.askFor("db.example.org")
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	second, err := r.askFor("db.example.org")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := second.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("%d bytes, %v", n, err)
	}
	if line := r.log.wait("connection shed"); !strings.Contains(line, "limit=limits.requests value=1") {
		t.Error(line)
	}
	if st := r.server.Stats(); st.Shed != 1 {
		t.Errorf("shed: %d", st.Shed)
	}
	first.Close()
}

// recorded keeps what is read.
type recorded struct {
	net.Conn
	read bytes.Buffer
}

func (r *recorded) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	r.read.Write(b[:n])
	return n, err
}

// recording keeps what the rig's next connection reads.
func (r *rig) recording() *recorded {
	record, dial := new(recorded), r.dial
	r.dial = func(ctx context.Context) (net.Conn, error) {
		r.dial = dial
		var err error
		record.Conn, err = dial(ctx)
		return record, err
	}
	return record
}

// toldOfTheEnd reports whether the last record has the size of an alert in TLS 1.3.
func (r *recorded) toldOfTheEnd() bool {
	const header, alert = 5, 2 + 1 + 16
	var size int
	for rest := r.read.Bytes(); len(rest) >= header; rest = rest[header+size:] {
		size = int(rest[3])<<8 | int(rest[4])
	}
	return size == alert
}

// TestTCPIsBrokenOff: a client is told that all was sent (close_notify) if the backend
// has ended its direction, and not if it broke off or the connection was refused.
func TestTCPIsBrokenOff(t *testing.T) {
	const said = "some of what there is to say"
	end, breakOff := make(chan bool), make(chan bool)
	r := tcpRig(t, func(c *config.Config) { c.Limits.Requests = 1 }, func(c net.Conn) {
		io.WriteString(c, said)
		select {
		case <-end:
		case <-breakOff:
			c.(*net.TCPConn).SetLinger(0)
		}
	})
	connect := func() (*recorded, *tls.Conn) {
		raw, err := r.dial(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { raw.Close() })
		record := &recorded{Conn: raw}
		return record, tls.Client(record, &tls.Config{RootCAs: r.roots, ServerName: "db.example.org"})
	}
	for how, told := range map[chan bool]bool{end: true, breakOff: false} {
		record, c := connect()
		if _, err := io.ReadFull(c, make([]byte, len(said))); err != nil {
			t.Fatal(err)
		}
		refused, over := connect()
		if rest, _ := io.ReadAll(over); len(rest) > 0 || refused.toldOfTheEnd() {
			t.Errorf("refused: %q; told: %v", rest, refused.toldOfTheEnd())
		}
		how <- true
		if rest, _ := io.ReadAll(c); len(rest) > 0 || record.toldOfTheEnd() != told {
			t.Errorf("%q; told of the end: %v, want %v", rest, record.toldOfTheEnd(), told)
		}
		c.Close()
		for r.server.Stats().Underway > 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

// TestAnswerIsBrokenOff: so it is with answers that last until the connection ends, as
// they do for clients of HTTP/1.0.
func TestAnswerIsBrokenOff(t *testing.T) {
	for path, whole := range map[string]bool{"/whole": true, "/part": false, "/part-of-known-length": false} {
		r := newRig(t, nil, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/part-of-known-length" {
				w.Header().Set("Content-Length", "100")
			}
			io.WriteString(w, "some of it")
			w.(http.Flusher).Flush()
			if r.URL.Path != "/whole" {
				panic(http.ErrAbortHandler)
			}
		})
		raw, err := r.dial(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		record := &recorded{Conn: raw}
		c := tls.Client(record, r.tlsConfig())
		fmt.Fprintf(c, "GET %s HTTP/1.0\r\nHost: front.example\r\n\r\n", path)
		got, _ := io.ReadAll(c)
		if !strings.HasSuffix(string(got), "\r\n\r\nsome of it") || record.toldOfTheEnd() != whole {
			t.Errorf("%s: %q; told of the end: %v, want %v", path, got, record.toldOfTheEnd(), whole)
		}
		raw.Close()
	}
}

// TestIdleRelay: a connection in mode tcp ends when nothing passes for a time,
// also where the backend takes nothing any more.
func TestIdleRelay(t *testing.T) {
	for name, deaf := range map[string]bool{"silent": false, "deaf": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended, over := make(chan error, 1), make(chan struct{})
				defer close(over)
				r := newMemRig(t, func(c *config.Config) {
					c.Timeouts.Tunnel = config.Duration(time.Minute)
					c.Hosts = []config.Host{{Names: []config.HostName{"*"}, Mode: config.ModeTCP, Pool: "db"}}
					c.Pools = map[string]config.Pool{"db": pool(config.URL{URL: &url.URL{Scheme: "tcp", Host: "db.example:1"}})}
				}, nil)
				go func() {
					c, err := r.back.Accept()
					if err != nil {
						return
					}
					defer c.Close()
					if deaf {
						<-over
						return
					}
					_, err = io.Copy(c, c)
					ended <- err
				}()
				c, err := r.askFor("front.example")
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				if deaf {
					go c.Write(make([]byte, 1<<20))
				} else {
					for range 5 {
						time.Sleep(59 * time.Second)
						io.WriteString(c, "ping")
						if _, err := io.ReadFull(c, make([]byte, 4)); err != nil {
							t.Fatal(err)
						}
					}
					start = time.Now()
				}
				if _, err := c.Read(make([]byte, 1)); err == nil {
					t.Error("read from an idle connection")
				}
				if d := time.Since(start); d != time.Minute {
					t.Errorf("it ended after %v", d)
				}
				if !deaf {
					<-ended
				}
			})
		})
	}
}

// TestRelayIsCut: Shutdown waits for a connection in mode tcp, and ends it when
// its time is up.
func TestRelayIsCut(t *testing.T) {
	entered, ended := make(chan bool, 1), make(chan error, 1)
	r := tcpRig(t, nil, func(c net.Conn) {
		entered <- true
		_, err := io.Copy(io.Discard, c)
		ended <- err
	})
	if _, err := r.askFor("db.example.org"); err != nil {
		t.Fatal(err)
	}
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	shut := make(chan error, 1)
	go func() { shut <- r.server.Shutdown(ctx) }()
	select {
	case err := <-shut:
		t.Fatalf("Shutdown did not wait: %v", err)
	case <-ended:
		t.Fatal("the connection was cut at once")
	case <-time.After(50 * time.Millisecond):
	}
	cancel()
	if err := <-shut; err == nil || !strings.Contains(err.Error(), "connections cut: 1") {
		t.Errorf("Shutdown: %v", err)
	}
	<-ended
	r.stopped = true
}

// recordingConn keeps what is written to it.
type recordingConn struct {
	net.Conn
	piece   int
	written []byte
}

// Write sends in pieces, each in a segment of its own.
func (c *recordingConn) Write(b []byte) (int, error) {
	c.written = append(c.written, b...)
	for n := 0; n < len(b); n += c.piece {
		if _, err := c.Conn.Write(b[n:min(n+c.piece, len(b))]); err != nil {
			return n, err
		}
	}
	return len(b), nil
}

// TestPassthrough: the backend's own TLS is what the client meets, by SNI,
// whatever the size of the ClientHello and the segments that it comes in.
func TestPassthrough(t *testing.T) {
	cert, err := certificates.SelfSigned("raw.example.org")
	if err != nil {
		t.Fatal(err)
	}
	var firstBytes atomic.Pointer[[]byte]
	backendURL := serveBytes(t, func(c net.Conn) {
		seen := &unreadRecorder{Conn: c}
		s := tls.Server(seen, &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"echo"}, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			all := append([]byte(nil), seen.read...)
			firstBytes.Store(&all)
			return nil, nil
		}})
		io.Copy(s, s)
		s.CloseWrite()
	})
	r := newRig(t, func(c *config.Config) {
		c.Log.Requests = true
		c.Pools = map[string]config.Pool{"raw": pool(backendURL)}
		c.Hosts = []config.Host{{Names: []config.HostName{"raw.example.org"}, Mode: config.ModePassthrough, Pool: "raw"}}
	}, hello)
	for _, test := range []struct{ extra, piece int }{{0, 1 << 20}, {0, 1}, {9_000, 1400}, {40_000, 1000}, {40_000, 1 << 20}} {
		t.Run(fmt.Sprint(test.extra, " in pieces of ", test.piece), func(t *testing.T) {
			raw, err := r.dial(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			rec := &recordingConn{Conn: raw, piece: test.piece}
			protocols := []string{"echo"}
			for n := 0; n < test.extra; n += 201 {
				protocols = append(protocols, fmt.Sprintf("%0200d", n))
			}
			c := tls.Client(rec, &tls.Config{ServerName: "raw.example.org", NextProtos: protocols, InsecureSkipVerify: true})
			if err := c.Handshake(); err != nil {
				t.Fatal(err)
			}
			state := c.ConnectionState()
			if !state.PeerCertificates[0].Equal(cert.Leaf) || state.NegotiatedProtocol != "echo" {
				t.Errorf("certificate of %v, ALPN %q", state.PeerCertificates[0].DNSNames, state.NegotiatedProtocol)
			}
			first := *firstBytes.Load()
			if len(first) < test.extra || !strings.HasPrefix(string(rec.written), string(first)) {
				t.Errorf("the backend read %d bytes that are not the client's first", len(first))
			}
			message := strings.Repeat("message ", 10_000)
			go func() {
				io.WriteString(c, message)
				c.CloseWrite()
			}()
			if got, err := io.ReadAll(c); string(got) != message || err != nil {
				t.Errorf("%d bytes came back, %v", len(got), err)
			}
		})
	}
	line := r.log.wait("msg=connection")
	for _, want := range []string{"mode=passthrough", "sni=raw.example.org", "backend=127.0.0.1:"} {
		if !strings.Contains(line, want) || strings.Contains(line, "group=") {
			t.Errorf("no %s in %s", want, line)
		}
	}
	if status, body := r.get(r.client(true), "/"); status != 200 || body != "hello" {
		t.Errorf("a host in mode http: %d %q", status, body)
	}
}

// unreadRecorder keeps what is read from it.
type unreadRecorder struct {
	net.Conn
	read []byte
}

func (c *unreadRecorder) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read = append(c.read, b[:n]...)
	return n, err
}

// TestEndlessHello: what is kept of a ClientHello is bounded, here one that
// comes in records of a byte each.
func TestEndlessHello(t *testing.T) {
	r := newRig(t, func(c *config.Config) {
		c.Pools = map[string]config.Pool{"raw": pool(config.URL{URL: &url.URL{Scheme: "tcp", Host: "127.0.0.1:1"}})}
		c.Hosts = []config.Host{{Names: []config.HostName{"raw.example.org"}, Mode: config.ModePassthrough, Pool: "raw"}}
	}, hello)
	raw, err := r.dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	hello := append([]byte{1, 0, 0xff, 0xf0}, make([]byte, 0xfff0)...) // a header, and 65,520 bytes
	var records []byte
	for _, b := range hello[:len(hello)-1] {
		records = append(records, 22, 3, 1, 0, 1, b)
	}
	go raw.Write(records)
	if _, err := io.Copy(io.Discard, raw); err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
	if line := r.log.wait("TLS handshake failed"); !strings.Contains(line, errHelloTooLarge.Error()) {
		t.Error(line)
	}
}

// TestForwarded: the header of RFC 7239, where it is asked for.
func TestForwarded(t *testing.T) {
	for _, on := range []bool{false, true} {
		var seen http.Header
		r := newRig(t, func(c *config.Config) { c.Headers.Forwarded = on }, func(w http.ResponseWriter, req *http.Request) { seen = req.Header })
		r.raw("GET / HTTP/1.1\r\nHost: front.example:8443\r\nForwarded: for=evil\r\n\r\n")
		want := map[bool]string{true: `for=127.0.0.1;host="front.example:8443";proto=https`}[on]
		if got := strings.Join(seen["Forwarded"], ", "); got != want {
			t.Errorf("%v: %s, want %s", on, got, want)
		}
	}
	for _, test := range []struct{ remote, host, want string }{
		{"[2001:db8::1]:443", "a", `for="[2001:db8::1]";host=a;proto=https`},
		{"[::ffff:192.0.2.1]:443", `a"\b`, `for=192.0.2.1;host="a\"\\b";proto=https`},
		{"@", "a", `for=unknown;host=a;proto=https`},
	} {
		if got := forwarded(&http.Request{RemoteAddr: test.remote, Host: test.host}); got != test.want {
			t.Errorf("%s: %s, want %s", test.remote, got, test.want)
		}
	}
}
