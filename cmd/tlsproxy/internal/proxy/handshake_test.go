package proxy

import (
	"context"
	"crypto"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/memnet"
	"github.com/ctrutls/ctrutls/provider"
	"github.com/ctrutls/ctrutls/tlsext"
)

// failedHandshake has a client do something wrong and returns the log's line.
func failedHandshake(t *testing.T, change func(*config.Config), client func(r *rig, raw net.Conn)) string {
	t.Helper()
	r := newRig(t, change, hello)
	raw, err := r.dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	client(r, raw)
	return r.log.wait("TLS handshake failed")
}

// TestFailedHandshakes looks at what is logged of each kind of failure.
func TestFailedHandshakes(t *testing.T) {
	handshake := func(change func(*tls.Config)) func(*rig, net.Conn) {
		return func(r *rig, raw net.Conn) {
			c := r.tlsConfig()
			change(c)
			if err := tls.Client(raw, c).Handshake(); err == nil {
				r.t.Error("the handshake did not fail")
			}
		}
	}
	write := func(text string) func(*rig, net.Conn) {
		return func(_ *rig, raw net.Conn) {
			io.WriteString(raw, text)
			raw.(*net.TCPConn).CloseWrite()
		}
	}
	tests := []struct {
		name   string
		change func(*config.Config)
		client func(*rig, net.Conn)
		want   []string
	}{
		{"no common group", func(c *config.Config) { c.TLS.Groups = []config.Group{config.Group(tls.X25519)} },
			handshake(func(c *tls.Config) {
				c.CurvePreferences = []tls.CurveID{tls.CurveP256, tls.CurveP384}
				c.NextProtos = []string{"h2", "http/1.1"}
				c.MinVersion = tls.VersionTLS13
			}),
			[]string{"level=INFO", "remote=127.0.0.1:", `alert_sent="handshake failure"`, "sni=front.example", `offered_groups="[CurveP256 CurveP384]"`,
				`offered_versions="[TLS 1.3]"`, `offered_alpn="[h2 http/1.1]"`, `version="TLS 1.3"`, "reason="}},
		{"old version", nil, handshake(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }),
			[]string{`alert_sent="protocol version not supported"`, `offered_versions="[TLS 1.1 TLS 1.0]"`, `reason="client offered only unsupported versions: [302 301]"`}},
		{"version below the minimum", func(c *config.Config) { c.TLS.MinVersion = tls.VersionTLS13 },
			handshake(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }),
			[]string{`alert_sent="protocol version not supported"`, `offered_versions="[TLS 1.2]"`}},
		{"no common protocol", nil, handshake(func(c *tls.Config) { c.NextProtos = []string{"imap\n"} }),
			[]string{`alert_sent="no application protocol"`, `offered_alpn=[imap\x0a]`}},
		{"client does not trust the certificate", nil, handshake(func(c *tls.Config) { c.RootCAs = nil; c.CurvePreferences = []tls.CurveID{0xFE76, tls.X25519} }),
			[]string{`alert_received="bad certificate"`, `reason="bad certificate"`, "group=X25519CTRUPrime761", `offered_groups="[X25519CTRUPrime761 X25519]"`}},
		{"name that would forge a line", nil, handshake(func(c *tls.Config) {
			c.ServerName, c.RootCAs = "evil\nlevel=ERROR msg=forged \x1b[31m", nil
		}),
			[]string{`sni="evil\\x0alevel=ERROR msg=forged \\x1b[31m"`}},
		{"name that is too long", nil, handshake(func(c *tls.Config) { c.ServerName = strings.Repeat("a", 4000) }),
			[]string{"sni=" + strings.Repeat("a", 255) + "... "}},
		{"many protocols", nil, handshake(func(c *tls.Config) {
			for n := range 100 {
				c.NextProtos = append(c.NextProtos, fmt.Sprint("p", n))
			}
		}),
			[]string{"p22 p23 and 76 more]"}},
		{"garbage", nil, write(strings.Repeat("\x01\xffgarbage", 10)),
			[]string{`reason="first record does not look like a TLS handshake"`}},
		{"garbage as a handshake record", nil, write("\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"),
			[]string{"reason=", "alert_sent="}},
		{"huge ClientHello", nil, write("\x16\x03\x01\x00\x04\x01\x02\x00\x00"),
			[]string{"level=INFO", `alert_sent="internal error"`, "reason="}},
		{"close within the ClientHello", nil, write("\x16\x03\x01\x01\x00half"),
			[]string{`reason="the client closed the connection, within its ClientHello"`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			line := failedHandshake(t, test.change, test.client)
			for _, want := range test.want {
				if !strings.Contains(line, want) {
					t.Errorf("no %s in\n%s", want, line)
				}
			}
		})
	}
}

// TestPlainHTTP: the client is told.
func TestPlainHTTP(t *testing.T) {
	line := failedHandshake(t, nil, func(r *rig, raw net.Conn) {
		io.WriteString(raw, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		// The rest of the request is unread when the proxy closes, so the
		// answer may end in a reset.
		answer, _ := io.ReadAll(raw)
		if !strings.HasPrefix(string(answer), "HTTP/1.0 400 Bad Request\r\n") || !strings.HasSuffix(string(answer), "This port speaks HTTPS; the request came without TLS.\n") {
			t.Errorf("answer: %q", answer)
		}
	})
	if !strings.Contains(line, `reason="the client sent an HTTP request without TLS"`) {
		t.Error(line)
	}
}

// TestSilentClose: a connection without a byte, as a load balancer's health
// check makes it, is no failed handshake.
func TestSilentClose(t *testing.T) {
	r := newRig(t, nil, hello)
	raw, err := r.dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	raw.Close()
	if line := r.log.wait("connection closed before its ClientHello"); !strings.Contains(line, "level=DEBUG") {
		t.Error(line)
	}
	if st := r.server.Stats(); st.Failed != 0 {
		t.Errorf("%+v", st)
	}
}

// TestStalledHandshake: wherever a client stalls, its connection is closed
// when the time is up, and the log says how far it got.
func TestStalledHandshake(t *testing.T) {
	for _, test := range []struct {
		name   string
		client func(r *rig, raw net.Conn)
		want   string
	}{
		{"silent", func(*rig, net.Conn) {}, "before its ClientHello"},
		{"half a hello", func(_ *rig, raw net.Conn) { io.WriteString(raw, "\x16\x03\x01\x01\x00half") }, "within its ClientHello"},
		{"one byte a second", func(_ *rig, raw net.Conn) {
			for _, b := range []byte("\x16\x03\x01\x01\x00half and more") {
				if _, err := raw.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}, "within its ClientHello"},
		{"after the hello", func(r *rig, raw net.Conn) { tls.Client(helloOnly{raw}, r.tlsConfig(tls.X25519)).Handshake() }, "after its ClientHello"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newMemRig(t, nil, hello)
				raw, err := r.dial(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				defer raw.Close()
				ended := make(chan bool)
				go func() {
					defer close(ended)
					test.client(r, raw)
				}()
				time.Sleep(10*time.Second - 1)
				synctest.Wait()
				if st := r.server.Stats(); st.Open != 1 {
					t.Errorf("before the time-out: %+v", st)
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if st := r.server.Stats(); st.Open != 0 || st.Failed != 1 {
					t.Errorf("after the time-out: %+v", st)
				}
				<-ended
				line := r.log.wait("TLS handshake failed")
				if want := `reason="timed out after 10s, ` + test.want + `"`; !strings.Contains(line, want) {
					t.Errorf("no %s in %s", want, line)
				}
			})
		})
	}
}

// helloOnly is a client's connection on which the answer is never read to its
// end: the client goes silent after its ClientHello.
type helloOnly struct{ net.Conn }

func (h helloOnly) Read(b []byte) (int, error) {
	io.Copy(io.Discard, h.Conn)
	return 0, io.EOF
}

// TestFloodOfFailures: the log does not grow with them.
func TestFloodOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMemRig(t, func(c *config.Config) { c.Log.FailuresPerSecond = 3 }, hello)
		for range 50 {
			raw, err := r.dial(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(raw, "garbage")
			raw.Close()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		got := r.log.String()
		if n := strings.Count(got, "TLS handshake failed"); n != 3 {
			t.Errorf("%d lines", n)
		}
		if !strings.Contains(got, `level=INFO msg="log lines suppressed" about="failed handshakes" suppressed=47 limit_per_second=3`) {
			t.Errorf("log: %s", got)
		}
		if st := r.server.Stats(); st.Failed != 50 || st.Open != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestPanicInAHandshake costs one connection.
func TestPanicInAHandshake(t *testing.T) {
	r := newRig(t, nil, hello)
	good := r.server.live.Load().policies.rest.tls.GetCertificate
	r.server.live.Load().policies.rest.tls.GetCertificate = func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if h.ServerName == "panic.example" {
			panic([]byte("at the disco"))
		}
		return good(h)
	}
	raw, err := r.dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	c := r.tlsConfig()
	c.ServerName = "panic.example"
	if err := tls.Client(raw, c).Handshake(); err == nil {
		t.Error("no error")
	}
	line := r.log.wait("panic in a handshake")
	if !strings.Contains(line, `panic="a value of type []uint8"`) || !strings.Contains(line, "proxy.TestPanicInAHandshake.func1:") {
		t.Error(line)
	}
	wantNoValues(t, r.log.String())
	if status, _ := r.get(r.client(false), "/"); status != 200 {
		t.Errorf("afterwards: %d", status)
	}
}

// wantNoValues checks that a panic was logged without what was thrown, as text
// or as numbers, and without the words of a stack.
func wantNoValues(t *testing.T, log string) {
	t.Helper()
	for _, no := range []string{"disco", "97 116 32", "0x", "goroutine "} {
		if strings.Contains(log, no) {
			t.Errorf("%q in %s", no, log)
		}
	}
}

// TestPanicInARequest costs one request, and is logged by us and not by net/http.
func TestPanicInARequest(t *testing.T) {
	forBoth(t, func(t *testing.T, http2 bool) {
		r := newRig(t, nil, hello)
		h := r.server.live.Load().requests
		h.proxy.ModifyResponse = func(*http.Response) error { panic([]byte("at the disco")) }
		if response, err := r.client(http2).Get("https://front.example/"); err == nil {
			t.Error(response.Status)
		}
		line := r.log.wait("panic in a request")
		if !strings.Contains(line, "level=ERROR") || !strings.Contains(line, `panic="a value of type []uint8"`) || !strings.Contains(line, "proxy.TestPanicInARequest.func1.1:") {
			t.Error(line)
		}
		r.stop()
		wantNoValues(t, r.log.String())
	})
}

// TestPanicElsewhere: what net/http itself logs of a panic is cut.
func TestPanicElsewhere(t *testing.T) {
	r := newRig(t, nil, hello)
	r.server.http.ErrorLog.Printf("http: panic serving [::1]:5: at the disco\ngoroutine 7 [running]:\nmain.f(0xc000, 0x61)")
	r.server.http.ErrorLog.Printf("http: something else: %d", 0)
	if line := r.log.wait("panic serving"); !strings.Contains(line, `msg="http: panic serving a connection"`) {
		t.Error(line)
	}
	r.log.wait(`msg="http: something else: 0"`)
	wantNoValues(t, r.log.String())
}

// brokenKey is a private key that signs nothing.
type brokenKey struct{ crypto.Signer }

func (brokenKey) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return nil, errors.New("the key store is gone")
}

// TestOurFaults are logged as errors.
func TestOurFaults(t *testing.T) {
	closed, err := provider.Open(provider.Config{KeyPoolSize: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	t.Run("provider", func(t *testing.T) {
		defer groups.Register(opened)
		line := failedHandshake(t, nil, func(r *rig, raw net.Conn) {
			// The client needs a provider that works for its own share.
			late := &beforeWrite{Conn: raw, call: func() { groups.Register(closed) }}
			if tls.Client(late, r.tlsConfig(tlsext.X25519CTRUPrime761)).Handshake() == nil {
				t.Error("the handshake did not fail")
			}
		})
		if !strings.Contains(line, "level=ERROR") || !strings.Contains(line, `alert_sent="internal error"`) {
			t.Error(line)
		}
	})
	t.Run("key", func(t *testing.T) {
		line := failedHandshake(t, nil, func(r *rig, raw net.Conn) {
			good := r.server.live.Load().policies.rest.tls.GetCertificate
			r.server.live.Load().policies.rest.tls.GetCertificate = func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
				cert, err := good(h)
				broken := *cert
				broken.PrivateKey = brokenKey{cert.PrivateKey.(crypto.Signer)}
				return &broken, err
			}
			if tls.Client(raw, r.tlsConfig()).Handshake() == nil {
				t.Error("the handshake did not fail")
			}
		})
		if !strings.Contains(line, "level=ERROR") || !strings.Contains(line, "the key store is gone") {
			t.Error(line)
		}
	})
}

// beforeWrite is a connection that calls something before each write.
type beforeWrite struct {
	net.Conn
	call func()
}

func (b *beforeWrite) Write(p []byte) (int, error) {
	b.call()
	return b.Conn.Write(p)
}

// TestGroupOrder: the order of tls.groups decides, also among groups that are
// all crypto/tls's own, and whatever order and key shares the client has.
func TestGroupOrder(t *testing.T) {
	for _, test := range []struct {
		groups, offered []tls.CurveID
		want            tls.CurveID
	}{
		{[]tls.CurveID{tls.X25519, tls.X25519MLKEM768}, nil, tls.X25519},
		{[]tls.CurveID{tls.X25519MLKEM768, tls.X25519}, nil, tls.X25519MLKEM768},
		{[]tls.CurveID{tls.CurveP521, tls.X25519MLKEM768, tls.X25519}, nil, tls.CurveP521},
		{[]tls.CurveID{tls.CurveP521, tls.CurveP256, tls.X25519}, []tls.CurveID{tls.X25519, tls.CurveP256}, tls.CurveP256},
		{[]tls.CurveID{tls.X25519, tlsext.X25519CTRUPrime761}, []tls.CurveID{tlsext.X25519CTRUPrime761, tls.X25519}, tls.X25519},
	} {
		r := newRig(t, func(c *config.Config) { c.TLS.Groups = configGroups(test.groups) }, hello)
		client := r.tlsConfig(test.offered...)
		client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		for i := range 3 {
			raw, err := r.dial(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			c := tls.Client(raw, client)
			io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
			if _, err := io.ReadAll(c); err != nil { // reads the session ticket too
				t.Fatal(err)
			}
			if st := c.ConnectionState(); st.CurveID != test.want || st.DidResume != (i > 0) {
				t.Errorf("groups %v, offered %v: connection %d with %v, resumed: %v", groups.Names(test.groups), groups.Names(test.offered), i, groups.Name(st.CurveID), st.DidResume)
			}
			raw.Close()
		}
	}
}

// TestResumptionAcrossGroups: a session that began with one group goes on with
// another.
func TestResumptionAcrossGroups(t *testing.T) {
	r := newRig(t, func(c *config.Config) {
		c.TLS.Groups = configGroups([]tls.CurveID{tls.CurveP256, tls.X25519MLKEM768, tls.X25519})
	}, hello)
	cache := tls.NewLRUClientSessionCache(1)
	for i, group := range []tls.CurveID{tls.X25519, tls.CurveP256, tls.X25519MLKEM768} {
		raw, err := r.dial(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		client := r.tlsConfig(group)
		client.ClientSessionCache = cache
		c := tls.Client(raw, client)
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		if _, err := io.ReadAll(c); err != nil {
			t.Fatal(err)
		}
		if st := c.ConnectionState(); st.CurveID != group || st.DidResume != (i > 0) {
			t.Errorf("connection %d: %v, resumed: %v", i, groups.Name(st.CurveID), st.DidResume)
		}
		raw.Close()
	}
}

func configGroups(ids []tls.CurveID) (all []config.Group) {
	for _, id := range ids {
		all = append(all, config.Group(id))
	}
	return all
}

// crowd is a Listener whose connections come from given places in turn.
type crowd struct {
	*memnet.Listener
	from []string
}

func (l *crowd) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	at := l.from[0]
	l.from = l.from[1:]
	return placed{c, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(at))}, nil
}

type placed struct {
	net.Conn
	at net.Addr
}

func (p placed) RemoteAddr() net.Addr { return p.at }

// TestHandshakesPerSource: one source cannot take all handshakes.
func TestHandshakesPerSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMemRig(t, func(c *config.Config) { c.Limits.HandshakesPerSource = 2 }, hello)
		ln := &crowd{Listener: memnet.Listen()}
		places := []struct {
			from string
			shed bool
		}{
			{"192.0.2.1:1", false}, {"192.0.2.1:2", false}, {"192.0.2.1:3", true}, {"[::ffff:192.0.2.1]:4", true}, {"192.0.2.2:1", false},
			{"[2001:db8::1]:1", false}, {"[2001:db8::2]:1", false}, {"[2001:db8::ffff:0:0:3]:1", true}, {"[2001:db8:0:1::1]:1", false},
		}
		for _, p := range places {
			ln.from = append(ln.from, p.from)
		}
		ln.from = append(ln.from, "192.0.2.1:5", "192.0.2.1:6")
		served := make(chan error, 1)
		go func() { served <- r.server.Serve(ln) }()
		dial := func() (c net.Conn, shed bool) {
			c, err := ln.Dial(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			c.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err = c.Read(make([]byte, 1))
			c.SetReadDeadline(time.Time{})
			return c, err == io.EOF
		}
		var first net.Conn
		for _, p := range places {
			c, shed := dial()
			if shed != p.shed {
				t.Errorf("%s: shed %v", p.from, shed)
			}
			if first == nil {
				first = c
			}
		}
		if line := r.log.wait("connection shed"); !strings.Contains(line, "limit=limits.handshakes_per_source value=2") {
			t.Error(line)
		}
		first.Close()
		synctest.Wait()
		if _, shed := dial(); shed {
			t.Error("a free place was not given away")
		}
		if _, shed := dial(); !shed {
			t.Error("a place was given away twice")
		}
		time.Sleep(time.Minute) // all time out
		synctest.Wait()
		r.server.mu.Lock()
		if n := len(r.server.books.sources); n != 0 {
			t.Errorf("%d sources are remembered without a connection", n)
		}
		r.server.mu.Unlock()
		r.stop()
		<-served
	})
}

// TestConnectionLimits: those over the limit are closed at once, the others
// live on, and a place that becomes free is given away again.
func TestConnectionLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMemRig(t, func(c *config.Config) { c.Limits.Connections, c.Limits.Handshakes = 3, 2 }, hello)
		dial := func() net.Conn {
			raw, err := r.dial(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { raw.Close() })
			synctest.Wait()
			return raw
		}
		shed := func(c net.Conn) bool {
			c.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err := c.Read(make([]byte, 1))
			c.SetReadDeadline(time.Time{})
			return err == io.EOF
		}
		established := r.connect() // the first of three
		first, second := dial(), dial()
		if shed(first) || shed(second) {
			t.Error("shed below the limits")
		}
		if third := dial(); !shed(third) {
			t.Error("not shed at the limit of connections")
		}
		if line := r.log.wait("connection shed"); !strings.Contains(line, "level=WARN") || !strings.Contains(line, "limit=limits.connections value=3") {
			t.Error(line)
		}
		established.Close()
		synctest.Wait()
		r.log.reset()
		if third := dial(); !shed(third) { // two of three, but both are in their handshake
			t.Error("not shed at the limit of handshakes")
		}
		if line := r.log.wait("connection shed"); !strings.Contains(line, "limit=limits.handshakes value=2") {
			t.Error(line)
		}
		first.Close()
		synctest.Wait()
		if again := dial(); shed(again) {
			t.Error("a free place was not given away")
		}
		if st := r.server.Stats(); st.Shed != 2 || st.Open != 2 || st.Accepted != 4 || st.Handshaking != 2 {
			t.Errorf("%+v", st)
		}
	})
}

// shortListener is out of descriptors a few times, then works, then breaks.
type shortListener struct {
	*memnet.Listener
	errors []error
}

func (l *shortListener) Accept() (net.Conn, error) {
	if len(l.errors) > 0 {
		err := l.errors[0]
		l.errors = l.errors[1:]
		return nil, &net.OpError{Op: "accept", Err: err}
	}
	return l.Listener.Accept()
}

// TestAcceptErrors: an error that passes is waited out, longer each time;
// another ends Serve.
func TestAcceptErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMemRig(t, nil, hello)
		start := time.Now()
		ln := &shortListener{Listener: memnet.Listen(), errors: []error{syscall.EMFILE, syscall.EPERM, syscall.EHOSTUNREACH}}
		served := make(chan error, 1)
		go func() { served <- r.server.Serve(ln) }()
		raw, err := ln.Dial(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		if d := time.Since(start); d != 35*time.Millisecond {
			t.Errorf("accepted after %v", d)
		}
		if n := strings.Count(r.log.String(), "accepting failed; trying again"); n != 3 {
			t.Errorf("%d lines: %s", n, r.log)
		}
		broken := errors.New("broken")
		if err := r.server.Serve(&shortListener{Listener: memnet.Listen(), errors: []error{broken}}); !errors.Is(err, broken) {
			t.Errorf("Serve: %v", err)
		}
		r.stop()
		if err := <-served; err != ErrClosed {
			t.Errorf("Serve: %v", err)
		}
		if err := r.server.Serve(memnet.Listen()); err != ErrClosed {
			t.Errorf("Serve after Shutdown: %v", err)
		}
	})
}
