package backend

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/memnet"
)

// h2c makes a cluster's pool speak HTTP/2.
func h2c(o *Options) { o.Protocol = H2C }

// tlsServer is an https backend that speaks the protocols of ALPN that are
// named, and the options of a pool of it.
func tlsServer(t *testing.T, handler http.HandlerFunc, alpn ...string) (*httptest.Server, Options) {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	for _, p := range alpn {
		s.EnableHTTP2 = s.EnableHTTP2 || p == alpnHTTP2
	}
	s.StartTLS()
	s.TLS.NextProtos = alpn
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s, Options{Name: "test", URLs: []*url.URL{u}, TLS: &tls.Config{RootCAs: roots}, EjectAfter: 1, EjectFor: time.Second, MaxIdleConnections: 4,
		ConnectTimeout: time.Minute, IdleTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler)}
}

// open makes a pool that the test closes.
func open(t *testing.T, o Options) *Pool {
	t.Helper()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// TestProtocols: what is spoken, by the pool's protocol and what ALPN gives.
func TestProtocols(t *testing.T) {
	for _, test := range []struct {
		protocol Protocol
		alpn     []string
		want     string
	}{
		{HTTP1, []string{"h2", "http/1.1"}, "HTTP/1.1"},
		{HTTP2, []string{"h2", "http/1.1"}, "HTTP/2.0"},
		{HTTP2, []string{"http/1.1"}, "tls: no application protocol"},
		{HTTP2, nil, "the backend does not speak h2"},
		{Auto, []string{"h2", "http/1.1"}, "HTTP/2.0"},
		{Auto, []string{"http/1.1"}, "HTTP/1.1"},
		{Auto, nil, "HTTP/1.1"},
	} {
		_, o := tlsServer(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto+" "+r.RequestURI+" "+r.Host) }, test.alpn...)
		o.Protocol = test.protocol
		o.URLs[0].Path = "/base"
		p := open(t, o)
		r, _ := http.NewRequest(http.MethodGet, "http://front.example/x?y", nil)
		response, err := p.RoundTrip(r)
		if err != nil {
			var connect *ConnectError
			if !errors.As(err, &connect) || !connect.Handshake || !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("%+v: %v", test, err)
			}
			continue
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if want := test.want + " /base/x?y front.example"; string(body) != want {
			t.Errorf("%+v: %s", test, body)
		}
	}
}

// TestMultiplexing: requests share a connection, and one that is given up does
// not disturb the others.
func TestMultiplexing(t *testing.T) {
	for _, protocol := range []Protocol{HTTP2, H2C} {
		var mu sync.Mutex
		conns := map[string]bool{}
		entered, leave := make(chan bool), make(chan bool)
		handler := func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			conns[r.RemoteAddr] = true
			mu.Unlock()
			entered <- true
			select {
			case <-leave:
			case <-r.Context().Done():
			}
		}
		var o Options
		if protocol == HTTP2 {
			_, o = tlsServer(t, handler, "h2")
		} else {
			s := httptest.NewUnstartedServer(http.HandlerFunc(handler))
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetUnencryptedHTTP2(true)
			s.Start()
			t.Cleanup(s.Close)
			u, _ := url.Parse(s.URL)
			o = Options{URLs: []*url.URL{u}, EjectAfter: 1, EjectFor: time.Second, ConnectTimeout: time.Minute, IdleTimeout: time.Minute}
		}
		o.Protocol, o.MaxIdleConnections = protocol, 1
		p := open(t, o)
		const requests = 8
		contexts, results := [requests]context.CancelFunc{}, make(chan error, requests)
		for i := range requests {
			ctx, cancel := context.WithCancel(context.Background())
			contexts[i] = cancel
			go func() {
				r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://front.example/", nil)
				response, err := p.RoundTrip(r)
				if err == nil {
					response.Body.Close()
				}
				results <- err
			}()
			<-entered
		}
		contexts[0]()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("given up: %v", err)
		}
		close(leave)
		for range requests - 1 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		for _, cancel := range contexts {
			cancel()
		}
		if len(conns) != 1 || (*p.set.Load())[0].failures != 0 {
			t.Errorf("%d connections, %d failures", len(conns), (*p.set.Load())[0].failures)
		}
	}
}

// TestUpgrades: with auto they go over HTTP/1.1 although HTTP/2 is to be had;
// where only HTTP/2 is they become plain requests.
func TestUpgrades(t *testing.T) {
	for protocol, want := range map[Protocol]string{Auto: "HTTP/1.1 chat", HTTP2: "HTTP/2.0 "} {
		_, o := tlsServer(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Saw", r.Proto+" "+r.Header.Get("Upgrade"))
			if r.ProtoMajor == 2 {
				return
			}
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "chat")
			w.WriteHeader(http.StatusSwitchingProtocols)
			c, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			all, _ := io.ReadAll(rw)
			c.Write(all)
		}, "h2", "http/1.1")
		o.Protocol = protocol
		p := open(t, o)
		r, _ := http.NewRequest(http.MethodGet, "http://front.example/", nil)
		r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"chat"}}
		response, err := p.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := response.Header.Get("Saw"); got != want {
			t.Errorf("%v: the backend saw %s", protocol, got)
		}
		if protocol == Auto {
			c := response.Body.(interface {
				io.ReadWriter
				CloseWrite() error
			})
			io.WriteString(c, "through")
			c.CloseWrite()
			if all, err := io.ReadAll(c); string(all) != "through" || err != nil {
				t.Errorf("%q, %v", all, err)
			}
		}
		b := (*p.set.Load())[0]
		if b.underway.Load() != 1 {
			t.Errorf("%d under way", b.underway.Load())
		}
		response.Body.Close()
		if b.underway.Load() != 0 || r.Header.Get("Upgrade") != "chat" {
			t.Errorf("%d under way in the end; the request's header is %v", b.underway.Load(), r.Header)
		}
	}
}

// TestStalledStream: a backend that takes nothing of a request over HTTP/2, or
// pauses for too long in an answer, is given up and blamed, and its connection
// lives on.
func TestStalledStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusterWith(t, 1, func(w http.ResponseWriter, r *http.Request) {
			switch r.Method {
			case http.MethodPost:
				<-r.Context().Done()
			case http.MethodPut: // takes its time, and takes all
				for range 8 {
					time.Sleep(25 * time.Second)
					io.CopyN(io.Discard, r.Body, 1<<19)
				}
			default:
				io.WriteString(w, "x")
				http.NewResponseController(w).Flush()
				time.Sleep(179 * time.Second)
				io.WriteString(w, "x")
				http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}
		}, h2c)
		b := (*c.pool.set.Load())[0]
		send := func(method string, body io.Reader) (*http.Response, error) {
			r, _ := http.NewRequest(method, "http://front.example/", body)
			return c.pool.RoundTrip(r)
		}
		start := time.Now()
		if _, err := send(http.MethodPost, strings.NewReader(strings.Repeat("x", 4<<20))); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 2*time.Minute {
			t.Errorf("sending: after %v: %v", time.Since(start), err)
		}
		if b.failures != 1 {
			t.Errorf("sending: %d failures", b.failures)
		}
		response, err := send(http.MethodPut, strings.NewReader(strings.Repeat("x", 4<<20)))
		if err != nil {
			t.Fatalf("a slow backend: %v", err)
		}
		response.Body.Close()
		if response, err = send(http.MethodGet, nil); err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		buf := make([]byte, 1)
		for range 2 {
			if _, err := io.ReadFull(response.Body, buf); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour) // the reader's own time does not count
		start = time.Now()
		if _, err := response.Body.Read(buf); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 3*time.Minute {
			t.Errorf("receiving: after %v: %v", time.Since(start), err)
		}
		if b.failures != 1 {
			t.Errorf("receiving: %d failures", b.failures)
		}
	})
}

// TestResetStream: a backend that resets a stream is blamed, unless it found
// the request malformed.
func TestResetStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusterWith(t, 1, func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, h2c)
		b := (*c.pool.set.Load())[0]
		if got := c.do(context.Background(), strings.NewReader(strings.Repeat("x", 1<<20))); !strings.Contains(got, "INTERNAL_ERROR") || b.failures != 1 {
			t.Errorf("%s; %d failures", got, b.failures)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := newClusterWith(t, 1, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
		}, h2c)
		for range 10 {
			r, _ := http.NewRequest(http.MethodPost, "http://front.example/", io.MultiReader(strings.NewReader("x")))
			r.Trailer = http.Header{"Checksum": {"a\x00b"}} // as a client of HTTP/1.1 can send it
			if response, err := c.pool.RoundTrip(r); err == nil {
				response.Body.Close()
			}
		}
		if got := c.log.String(); strings.Contains(got, "ejected") {
			t.Errorf("a client had the backend ejected: %s", got)
		}
	})
}

// TestRefusedStreams runs a request that HTTP/2 cannot carry.
func TestRefusedStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusterWith(t, 1, nil, h2c)
		c.expect("b0")
		for range 10 {
			r, _ := http.NewRequest(http.MethodPost, "http://front.example/", strings.NewReader("x"))
			r.Trailer = http.Header{"Content-Length": nil}
			_, err := c.pool.RoundTrip(r)
			var refused *RequestError
			if !errors.As(err, &refused) {
				t.Fatalf("error: %v", err)
			}
		}
		if c.log.Len() > 0 {
			t.Errorf("log: %s", c.log.String())
		}
		c.expect("b0")
	})
}

// TestSilentStream: no answer in time over HTTP/2.
func TestSilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusterWith(t, 1, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, h2c)
		start := time.Now()
		if got := c.get(); !strings.Contains(got, "timeout awaiting response headers") || time.Since(start) != time.Minute {
			t.Errorf("after %v: %s", time.Since(start), got)
		}
		if b := (*c.pool.set.Load())[0]; b.failures != 1 {
			t.Errorf("%d failures", b.failures)
		}
	})
}

// TestStreamGivenUp: reading on after the client left fails with its context's
// error, as over HTTP/1.1, and is not the backend's fault.
func TestStreamGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusterWith(t, 1, func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "x")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, h2c)
		ctx, cancel := context.WithCancel(context.Background())
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://front.example/", nil)
		response, err := c.pool.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		time.AfterFunc(time.Second, cancel)
		if _, err := io.ReadAll(response.Body); err != context.Canceled {
			t.Errorf("%v", err)
		}
		if b := (*c.pool.set.Load())[0]; b.failures != 0 {
			t.Errorf("%d failures", b.failures)
		}
	})
}

// TestTrailersOverHTTP2 in both directions, announced and not.
func TestTrailersOverHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusterWith(t, 1, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(200)
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", r.Trailer.Get("Checksum"))
		}, h2c)
		r, _ := http.NewRequest(http.MethodPost, "http://front.example/", io.MultiReader(strings.NewReader("x")))
		r.Trailer = http.Header{"Checksum": {"7"}}
		response, err := c.pool.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if got := response.Trailer.Get("Grpc-Status"); got != "7" {
			t.Errorf("trailer %q", got)
		}
	})
}

// dropsLarge is a backend behind something that drops ClientHellos above a size.
func dropsLarge(t *testing.T, drop func(net.Conn), size int, config *tls.Config) *memnet.Listener {
	ln := memnet.Listen()
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			raw, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer raw.Close()
				in := bufio.NewReader(raw)
				header, err := in.Peek(5)
				if err != nil {
					return
				}
				if int(header[3])<<8|int(header[4]) > size {
					drop(raw)
					return
				}
				c := tls.Server(&buffered{raw, in}, config)
				if c.Handshake() == nil {
					http.ReadRequest(bufio.NewReader(c))
					fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
				}
			}()
		}
	}()
	return ln
}

type buffered struct {
	net.Conn
	in *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.in.Read(p) }

// TestClassicalRetry: a backend that drops large ClientHellos is asked again,
// where that is allowed, and from then on asked in the small way for a while.
func TestClassicalRetry(t *testing.T) {
	server, base := tlsServer(t, nil)
	drops := map[string]func(net.Conn){
		"closes": func(c net.Conn) {},
		"silent": func(c net.Conn) { io.Copy(io.Discard, c) },
	}
	for name, drop := range drops {
		for _, allowed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, allowed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var dropped atomic.Int64
					ln := dropsLarge(t, func(c net.Conn) {
						dropped.Add(1)
						drop(c)
					}, 800, &tls.Config{Certificates: server.TLS.Certificates})
					o := base
					var log buffer
					o.URLs = []*url.URL{{Scheme: "https", Host: "example.com"}} // which httptest's certificate is for
					o.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return ln.Dial(ctx) }
					o.Logger, o.EjectAfter = newLog(&log), 100
					o.TLS = o.TLS.Clone()
					o.TLS.CurvePreferences = []tls.CurveID{tls.X25519MLKEM768, tls.X25519}
					if allowed {
						o.ClassicalRetry = []tls.CurveID{tls.X25519}
					}
					p := open(t, o)
					ask := func() {
						r, _ := http.NewRequest(http.MethodGet, "http://front.example/", nil)
						response, err := p.RoundTrip(r)
						var connect *ConnectError
						switch {
						case allowed && err != nil:
							t.Error(err)
						case !allowed && !errors.As(err, &connect):
							t.Errorf("not allowed: %v", err)
						case err == nil:
							response.Body.Close()
						}
					}
					for range 3 {
						ask()
					}
					if want := map[bool]int64{true: 1, false: 3}[allowed]; dropped.Load() != want {
						t.Errorf("%d large ClientHellos, want %d", dropped.Load(), want)
					}
					if got := strings.Count(log.String(), "backend answers a classical ClientHello only"); got != map[bool]int{true: 1}[allowed] {
						t.Errorf("log: %s", &log)
					}
					time.Sleep(classicalFor)
					before := dropped.Load()
					if ask(); dropped.Load() != before+1 {
						t.Error("the groups that were asked for were not tried again")
					}
				})
			})
		}
	}
}

// TestNoClassicalRetry: a backend that answered, if only to refuse, is not asked
// again in another way.
func TestNoClassicalRetry(t *testing.T) {
	server, o := tlsServer(t, nil)
	dials := 0
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials++
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	o.TLS.RootCAs = x509.NewCertPool() // the certificate is not trusted
	o.ClassicalRetry = []tls.CurveID{tls.X25519}
	p := open(t, o)
	r, _ := http.NewRequest(http.MethodGet, "http://front.example/", nil)
	if _, err := p.RoundTrip(r); err == nil || dials != 1 {
		t.Errorf("%v after %d connections", err, dials)
	}
	dead := o
	dead.URLs = []*url.URL{{Scheme: "https", Host: server.Listener.Addr().String()}}
	server.Close()
	dials = 0
	p = open(t, dead)
	if _, err := p.RoundTrip(r); err == nil || dials != 1 {
		t.Errorf("a backend that is not there: %v after %d connections", err, dials)
	}
}

// TestClientCertificate: a backend that asks for one gets it, and one that
// resumes a session too.
func TestClientCertificate(t *testing.T) {
	s, o := tlsServer(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, len(r.TLS.PeerCertificates), r.TLS.DidResume, r.TLS.ServerName)
	})
	s.TLS.ClientAuth = tls.RequireAnyClientCert
	o.TLS.Certificates = s.TLS.Certificates
	o.TLS.ServerName = "example.com" // which httptest's certificate is for
	o.MaxIdleConnections = 0
	p := open(t, o)
	for _, want := range []string{"1 false example.com\n", "1 true example.com\n"} {
		r, _ := http.NewRequest(http.MethodGet, "http://front.example/", nil)
		response, err := p.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if string(body) != want {
			t.Errorf("%s, want %s", body, want)
		}
	}
	o.TLS = o.TLS.Clone()
	o.TLS.Certificates = nil
	p = open(t, o)
	r, _ := http.NewRequest(http.MethodGet, "http://front.example/", nil)
	if _, err := p.RoundTrip(r); err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("without a certificate: %v", err)
	}
}

// TestWrongName: a backend whose certificate is for another name is not sent
// anything.
func TestWrongName(t *testing.T) {
	_, o := tlsServer(t, nil)
	o.TLS.ServerName = "other.example"
	p := open(t, o)
	r, _ := http.NewRequest(http.MethodGet, "http://front.example/", nil)
	_, err := p.RoundTrip(r)
	var name x509.HostnameError
	if !errors.As(err, &name) {
		t.Errorf("%v", err)
	}
}

// TestTLSConnection speaks TLS with a tls backend.
func TestTLSConnection(t *testing.T) {
	s, o := tlsServer(t, func(w http.ResponseWriter, r *http.Request) {})
	o.URLs = []*url.URL{{Scheme: "tls", Host: s.Listener.Addr().String()}}
	p := open(t, o)
	c, err := p.Dial(t.Context(), "192.0.2.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("%v, %v", response, err)
	}
	response.Body.Close()
}

// TestUnixSocket speaks HTTP, either version, and bytes over one.
func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Proto, " ", r.Host, " ", r.RequestURI)
	})}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	go s.Serve(ln)
	defer s.Close()
	var log buffer
	defer func() {
		if log.Len() > 0 {
			t.Errorf("log: %s", &log)
		}
	}()
	o := Options{Name: "test", EjectAfter: 1, EjectFor: time.Second, MaxIdleConnections: 1, ConnectTimeout: time.Minute, IdleTimeout: time.Minute, Resolve: time.Hour, Logger: newLog(&log),
		Health: Health{Check: CheckHTTP, Path: "/up", Interval: time.Hour, Timeout: time.Minute, HealthyAfter: 1, UnhealthyAfter: 1}}
	for protocol, want := range map[Protocol]string{HTTP1: "HTTP/1.1", Auto: "HTTP/1.1", H2C: "HTTP/2.0"} {
		o.URLs, o.Protocol = []*url.URL{{Scheme: "http+unix", Path: path}}, protocol
		p := open(t, o)
		r, _ := http.NewRequest(http.MethodGet, "http://front.example/x?y", nil)
		response, err := p.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if string(body) != want+" front.example /x?y" {
			t.Errorf("%v: %s", protocol, body)
		}
		if st := p.Status()[0]; st.URL != "http+unix://"+path || st.Address != path || !st.Healthy {
			t.Errorf("%+v", st)
		}
	}
	o.URLs, o.Health = []*url.URL{{Scheme: "unix", Path: path}}, Health{}
	c, err := open(t, o).Dial(t.Context(), "192.0.2.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET /raw HTTP/1.0\r\n\r\n")
	c.CloseWrite()
	if all, err := io.ReadAll(c); !strings.HasSuffix(string(all), "/raw") || err != nil || c.Backend() != path {
		t.Errorf("%q, %v", all, err)
	}
}
