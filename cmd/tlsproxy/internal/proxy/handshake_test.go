package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/memnet"
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
		{"huge ClientHello", nil, write("\x16\x03\x01\x00\x04\x01\xff\xff\xff"),
			[]string{"reason=", "alert_sent="}},
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
	good := r.server.tls.GetCertificate
	r.server.tls.GetCertificate = func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if h.ServerName == "panic.example" {
			panic("at the disco")
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
	if line := r.log.wait("panic in a handshake"); !strings.Contains(line, "at the disco") {
		t.Error(line)
	}
	if status, _ := r.get(r.client(false), "/"); status != 200 {
		t.Errorf("afterwards: %d", status)
	}
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
		if st := r.server.Stats(); st.Shed != 2 || st.Open != 2 {
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
		ln := &shortListener{Listener: memnet.Listen(), errors: []error{syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED}}
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
