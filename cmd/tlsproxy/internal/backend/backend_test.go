package backend

import (
	"bytes"
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
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is a pool of backends in memory, named b0, b1, ..., each of which
// answers with its name. It lives in a synctest bubble.
type cluster struct {
	t         *testing.T
	pool      *Pool
	listeners map[string]*memnet.Listener
	log       buffer
	dials     atomic.Int64
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

func (b *buffer) Len() int { return len(b.String()) }

func (b *buffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all.Reset()
}

func newCluster(t *testing.T, n int, handler http.HandlerFunc) *cluster {
	return newClusterWith(t, n, handler, nil)
}

// newClusterWith lets change set options. Backends speak HTTP/2 too, without TLS.
func newClusterWith(t *testing.T, n int, handler http.HandlerFunc, change func(*Options)) *cluster {
	c := &cluster{t: t, listeners: map[string]*memnet.Listener{}}
	o := Options{
		Name: "test", Retries: 2, EjectAfter: 2, EjectFor: time.Second, MaxIdleConnections: 4, MaxHeaderBytes: 1 << 16,
		ConnectTimeout: 5 * time.Second, ResponseTimeout: time.Minute, IdleTimeout: time.Minute,
		WriteTimeout: 2 * time.Minute, ReadTimeout: 3 * time.Minute,
		Logger: slog.New(slog.NewTextHandler(&c.log, nil)),
		Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			c.dials.Add(1)
			host, _, _ := net.SplitHostPort(address)
			return c.listeners[host].Dial(ctx)
		},
	}
	for i := range n {
		name := fmt.Sprint("b", i)
		ln := memnet.Listen()
		c.listeners[name] = ln
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Backend", name)
			if handler != nil {
				handler(w, r)
			}
		}), Protocols: new(http.Protocols), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetUnencryptedHTTP2(true)
		go server.Serve(ln)
		t.Cleanup(func() { server.Close() })
		o.URLs = append(o.URLs, &url.URL{Scheme: "http", Host: name})
	}
	if change != nil {
		change(&o)
	}
	var err error
	if c.pool, err = New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.pool.Close)
	return c
}

// get returns which backend answered, or the error.
func (c *cluster) get() string {
	c.t.Helper()
	return c.do(context.Background(), nil)
}

func newRequest() (*http.Request, error) {
	return http.NewRequest(http.MethodGet, "http://front.example/", nil)
}

func (c *cluster) do(ctx context.Context, body io.Reader) string {
	c.t.Helper()
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://front.example/", body)
	if err != nil {
		c.t.Fatal(err)
	}
	response, err := c.pool.RoundTrip(r)
	if err != nil {
		return err.Error()
	}
	io.Copy(io.Discard, response.Body)
	response.Body.Close()
	return response.Header.Get("Backend")
}

// expect calls get as often as there are names.
func (c *cluster) expect(names ...string) {
	c.t.Helper()
	for i, want := range names {
		if got := c.get(); got != want {
			c.t.Fatalf("request %d of %v: %s", i, names, got)
		}
	}
}

func TestRoundRobin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		newCluster(t, 3, nil).expect("b0", "b1", "b2", "b0", "b1", "b2")
	})
}

// TestDeadBackend follows one backend through its death: retries hide it, then
// it is ejected, tried by one request at a time, ejected for longer, and back.
func TestDeadBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, nil)
		c.expect("b0", "b1")
		c.pool.Close() // no idle connection to b0 is left
		c.listeners["b0"].SetDown(true)

		c.expect("b1", "b1") // first failure of b0; then the second's turn
		c.expect("b1")       // second failure: ejected
		if got := c.log.String(); !strings.Contains(got, `msg="backend ejected" backend=b0 failures=2 for=1s`) {
			t.Fatalf("log: %s", got)
		}
		c.log.Reset()
		c.expect("b1", "b1", "b1", "b1")
		if c.log.Len() > 0 {
			t.Fatalf("an ejected backend was tried: %s", c.log.String())
		}
		time.Sleep(time.Second)
		c.expect("b1", "b1") // one of them tries b0 first
		if got := c.log.String(); strings.Count(got, "backend ejected") != 1 || !strings.Contains(got, "for=2s") {
			t.Fatalf("log: %s", got)
		}
		time.Sleep(2 * time.Second)
		c.listeners["b0"].SetDown(false)
		c.log.Reset()
		got := []string{c.get(), c.get(), c.get(), c.get()}
		if n := strings.Count(strings.Join(got, " "), "b0"); n != 2 {
			t.Fatalf("after its return b0 answered %d of %v", n, got)
		}
		if got := c.log.String(); !strings.Contains(got, `msg="backend is back" backend=b0`) {
			t.Fatalf("log: %s", got)
		}
	})
}

func TestBackoffIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{url: &url.URL{Host: "b"}, log: slog.New(slog.DiscardHandler), ejectAfter: 1, ejectFor: time.Second}
		for range 100 {
			b.failed(errors.New("dead"))
		}
		if b.backoff != maxBackoff*time.Second {
			t.Errorf("after 100 failures the ejection lasts %v", b.backoff)
		}
	})
}

// TestOneTriesForAll has many requests arrive just as an ejection ends: only
// one of them may find out whether the backend is back.
func TestOneTriesForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{url: &url.URL{Host: "b"}, log: slog.New(slog.DiscardHandler), ejectAfter: 1, ejectFor: time.Second}
		b.failed(errors.New("dead"))
		time.Sleep(time.Second)
		admitted := func() (n int) {
			var mu sync.Mutex
			var wait sync.WaitGroup
			for range 50 {
				wait.Go(func() {
					if b.admit(time.Now()) {
						mu.Lock()
						n++
						mu.Unlock()
					}
				})
			}
			wait.Wait()
			return n
		}
		if n := admitted(); n != 1 {
			t.Errorf("%d were let in", n)
		}
		b.undecided() // its client went away
		if n := admitted(); n != 1 {
			t.Errorf("%d were let in after a try without result", n)
		}
		b.succeeded()
		if n := admitted(); n != 50 {
			t.Errorf("%d of 50 were let in once it was back", n)
		}
	})
}

// TestAllDead expects an error that names a backend, and an answer as soon as
// one is back although all of them are ejected.
func TestAllDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, nil)
		for _, l := range c.listeners {
			l.SetDown(true)
		}
		for range 5 {
			got := c.get()
			if !strings.HasPrefix(got, "backend b") || !strings.HasSuffix(got, ": "+memnet.ErrRefused.Error()) {
				t.Fatalf("error: %s", got)
			}
		}
		c.listeners["b1"].SetDown(false)
		c.expect("b1", "b1")
	})
}

func TestErrorTellsWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, nil)
		c.listeners["b0"].SetDown(true)
		r, _ := http.NewRequest(http.MethodGet, "http://front.example/", nil)
		_, err := c.pool.RoundTrip(r)
		var connect *ConnectError
		if !errors.As(err, &connect) || !errors.Is(err, memnet.ErrRefused) {
			t.Errorf("%v", err)
		}
	})
}

// TestBodySurvivesADeadBackend retries a request with a body: the transport
// closes the body when it cannot connect.
func TestBodySurvivesADeadBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			w.Header().Set("Backend", fmt.Sprint(string(body), err))
		})
		c.listeners["b0"].SetDown(true)
		body := &closeCounter{Reader: strings.NewReader("payload")}
		if got := c.do(context.Background(), body); got != "payload<nil>" {
			t.Errorf("got %s", got)
		}
		synctest.Wait()
		if body.closed != 1 {
			t.Errorf("the body was closed %d times", body.closed)
		}
		c.pool.Close() // no idle connection to b1 is left
		c.listeners["b1"].SetDown(true)
		body = &closeCounter{Reader: strings.NewReader("payload")}
		if got := c.do(context.Background(), body); !strings.Contains(got, "refused") || body.closed != 1 {
			t.Errorf("got %s; the body was closed %d times", got, body.closed)
		}
	})
}

// TestBodyOutlastsTheAnswer: a body that an attempt before could not send is not
// closed when the answer begins.
func TestBodyOutlastsTheAnswer(t *testing.T) {
	for _, protocol := range []Protocol{HTTP1, H2C} {
		synctest.Test(t, func(t *testing.T) {
			c := newClusterWith(t, 2, func(w http.ResponseWriter, r *http.Request) {
				control := http.NewResponseController(w)
				control.EnableFullDuplex()
				control.Flush()
				body, err := io.ReadAll(r.Body)
				fmt.Fprint(w, string(body), err)
			}, func(o *Options) { o.Protocol = protocol })
			c.listeners["b0"].SetDown(true)
			reader, writer := io.Pipe()
			r, _ := http.NewRequest(http.MethodPost, "http://front.example/", reader)
			response, err := c.pool.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			io.WriteString(writer, "after the answer's header")
			writer.Close()
			if got, err := io.ReadAll(response.Body); string(got) != "after the answer's header<nil>" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// TestBodyIsOver: a backend answers as soon as it has all of a request, and the
// request can then be over and its body closed before the transport has asked for
// more of it, which must not cost the answer.
func TestBodyIsOver(t *testing.T) {
	for _, protocol := range []Protocol{HTTP1, H2C} {
		synctest.Test(t, func(t *testing.T) {
			content := strings.Repeat("answer", 10_000)
			rest := make(chan bool)
			c := newClusterWith(t, 1, func(w http.ResponseWriter, r *http.Request) {
				io.ReadFull(r.Body, make([]byte, len("request")))
				http.NewResponseController(w).EnableFullDuplex() // else it waits for the end itself
				io.WriteString(w, content[:10])
				http.NewResponseController(w).Flush()
				<-rest
				io.WriteString(w, content[10:])
			}, func(o *Options) { o.Protocol = protocol })
			asked := make(chan bool)
			r, _ := http.NewRequest("POST", "http://front.example/", io.MultiReader(strings.NewReader("request"), readFunc(func([]byte) (int, error) {
				close(asked)
				return 0, http.ErrBodyReadAfterClose
			})))
			r.ContentLength = int64(len("request"))
			response, err := c.pool.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			synctest.Wait()
			close(rest)
			select {
			case <-asked:
				t.Error("the body was read past its end")
			default:
			}
			if got, err := io.ReadAll(response.Body); string(got) != content || err != nil {
				t.Errorf("%d bytes of %d, %v", len(got), len(content), err)
			}
		})
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// TestBodyIsReadOnce: what was read of a body cannot be had again.
func TestBodyIsReadOnce(t *testing.T) {
	b := newRetryBody(&http.Request{Body: &closeCounter{Reader: strings.NewReader("x")}})
	if again, err := b.again(); again != b || err != nil {
		t.Errorf("unread: %v, %v", again, err)
	}
	b.Read(make([]byte, 1))
	if _, err := b.again(); err != errBodyRead {
		t.Errorf("read: %v", err)
	}
}

type closeCounter struct {
	io.Reader
	closed int
}

func (c *closeCounter) Close() error { c.closed++; return nil }

// TestNoRetryOnceSent: a request that a backend may have seen is not sent to
// another.
// TestMalformedAnswer: an answer that is none counts as broken off, and leaves nothing
// behind, neither a request under way nor a connection for others.
func TestMalformedAnswer(t *testing.T) {
	for raw, want := range map[string]string{
		"099 What":                                       "malformed HTTP status code \"099\"",
		"101 Switching Protocols":                        "status 101 without",
		"101 Switching Protocols\r\nUpgrade: x":          "status 101 without",
		"101 Switching Protocols\r\nConnection: Upgrade": "status 101 without",
		"101 Switching Protocols\r\nContent-Length: 4":   "status 101 without",
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 1, func(w http.ResponseWriter, _ *http.Request) {
				conn, in, _ := w.(http.Hijacker).Hijack()
				defer conn.Close()
				fmt.Fprintf(conn, "HTTP/1.1 %s\r\n\r\n", raw)
				io.Copy(io.Discard, in) // until the connection is closed
			})
			if got := c.get(); !strings.HasPrefix(got, "backend b0: "+want) {
				t.Errorf("%q: %s, want %s", raw, got, want)
			}
			synctest.Wait()
			if got := c.pool.Status()[0]; got.Underway != 0 || got.Failures != 1 || got.Served != 0 {
				t.Errorf("%q: %+v", raw, got)
			}
			c.get()
			if n := c.dials.Load(); n != 2 {
				t.Errorf("%q: two requests went over %d connections", raw, n)
			}
		})
	}
}

func TestNoRetryOnceSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := 0
		c := newCluster(t, 2, func(w http.ResponseWriter, r *http.Request) {
			seen++
			panic(http.ErrAbortHandler)
		})
		if got := c.do(context.Background(), strings.NewReader("x")); !strings.HasPrefix(got, "backend b0: ") || seen != 1 {
			t.Errorf("%s; %d backends saw the request", got, seen)
		}
	})
}

// TestFaultyBodyIsNotTheBackends: a body that cannot be read and a client that
// goes away count against nobody.
func TestFaultyBodyIsNotTheBackends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		})
		broken := errors.New("broken")
		for range 5 {
			r, _ := http.NewRequest(http.MethodPost, "http://front.example/", io.MultiReader(strings.NewReader("x"), errReader{broken}))
			_, err := c.pool.RoundTrip(r)
			var body *RequestBodyError
			if !errors.As(err, &body) || !errors.Is(err, broken) {
				t.Errorf("error: %v", err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			if got := c.do(ctx, nil); got != "backend b0: context deadline exceeded" {
				t.Errorf("error: %s", got)
			}
			cancel()
		}
		if c.log.Len() > 0 {
			t.Errorf("log: %s", c.log.String())
		}
	})
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// TestSilentBackend: no answer in time is the backend's failure.
func TestSilentBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		start := time.Now()
		for range 2 {
			if got := c.get(); !strings.Contains(got, "timeout awaiting response headers") {
				t.Errorf("error: %s", got)
			}
		}
		if d := time.Since(start); d != 2*time.Minute {
			t.Errorf("two requests took %v", d)
		}
		if got := c.log.String(); !strings.Contains(got, "backend ejected") {
			t.Errorf("log: %s", got)
		}
	})
}

// TestRefusedRequest: a request that net/http's client does not send, found out
// before or after it has a connection, says nothing about the backend, is not
// tried elsewhere, and does not hold a connection.
func TestRefusedRequest(t *testing.T) {
	for name, spoil := range map[string]func(*http.Request){
		"trailer":     func(r *http.Request) { r.Trailer = http.Header{"A b": nil} },
		"header":      func(r *http.Request) { r.Header["A"] = []string{"b\x00"} },
		"method":      func(r *http.Request) { r.Method = "A b" },
		"target":      func(r *http.Request) { r.URL.Opaque = "a\nb" },
		"trailer key": func(r *http.Request) { r.Trailer = http.Header{"Content-Length": nil} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 2, nil)
				for i := range 10 { // far more than eject a backend
					if i == 5 {
						c.expect("b1", "b0") // some with idle connections
					}
					r, _ := http.NewRequest(http.MethodPost, "http://front.example/", strings.NewReader("x"))
					r.ContentLength = -1
					spoil(r)
					_, err := c.pool.RoundTrip(r)
					var refused *RequestError
					if !errors.As(err, &refused) {
						t.Fatalf("error: %v", err)
					}
				}
				synctest.Wait()
				if c.log.Len() > 0 {
					t.Errorf("log: %s", c.log.String())
				}
				c.expect("b0", "b1")
			})
		})
	}
}

// TestStalledBackend: a backend that takes nothing of a request, or pauses for
// too long in an answer, is given up and blamed.
func TestStalledBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blocked := make(chan struct{})
		defer func() { close(blocked); time.Sleep(time.Second) }() // net/http lingers
		c := newCluster(t, 1, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				<-blocked
				return
			}
			w.Header().Set("Content-Length", "3")
			for range 2 {
				io.WriteString(w, "x")
				http.NewResponseController(w).Flush()
				time.Sleep(179 * time.Second)
			}
			io.WriteString(w, "x")
		})
		start := time.Now()
		r, _ := http.NewRequest(http.MethodPost, "http://front.example/", strings.NewReader(strings.Repeat("x", 1<<20)))
		if _, err := c.pool.RoundTrip(r); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 2*time.Minute {
			t.Errorf("sending: after %v: %v", time.Since(start), err)
		}
		if b := (*c.pool.set.Load())[0]; b.failures != 1 {
			t.Errorf("sending: %d failures", b.failures)
		}
		r, _ = http.NewRequest(http.MethodGet, "http://front.example/", nil)
		response, err := c.pool.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if got, err := io.ReadAll(response.Body); string(got) != "xxx" || err != nil {
			t.Errorf("an answer with pauses: %q, %v", got, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "2")
			io.WriteString(w, "x")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		r, _ := http.NewRequest(http.MethodGet, "http://front.example/", nil)
		response, err := c.pool.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		time.Sleep(time.Hour) // the reader's own time does not count
		start := time.Now()
		got, err := io.ReadAll(response.Body)
		if string(got) != "x" || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 3*time.Minute {
			t.Errorf("receiving: after %v: %q, %v", time.Since(start), got, err)
		}
		if b := (*c.pool.set.Load())[0]; b.failures != 1 {
			t.Errorf("receiving: %d failures", b.failures)
		}
	})
}

// TestDeadlinesDoNotOutlast: a connection that is used again is free of the
// deadlines of the request before.
func TestDeadlinesDoNotOutlast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		c := newCluster(t, 1, func(w http.ResponseWriter, r *http.Request) {
			dials++
			time.Sleep(50 * time.Second)
			io.WriteString(w, strings.Repeat("x", 1<<16))
		})
		for range 20 {
			c.expect("b0")
			time.Sleep(50 * time.Second) // below the idle time-out
		}
		if got := (*c.pool.set.Load())[0].failures; got != 0 || dials != 20 {
			t.Errorf("%d failures, %d requests", got, dials)
		}
	})
}

// TestUnreachable: connecting is bounded.
func TestUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Options{
			URLs: []*url.URL{{Scheme: "http", Host: "b"}}, EjectAfter: 1, EjectFor: time.Second, ConnectTimeout: 5 * time.Second,
			Logger: slog.New(slog.DiscardHandler),
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		r, _ := http.NewRequest(http.MethodGet, "http://front.example/", nil)
		if _, err = p.RoundTrip(r); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// TestReuse sends requests one after another over one connection, to the base
// path, with the Host header of the request.
func TestReuse(t *testing.T) {
	conns := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conns[r.RemoteAddr]++
		fmt.Fprint(w, r.Host, " ", r.RequestURI, " ", r.Header["Accept-Encoding"])
	}))
	defer server.Close()
	target, _ := url.Parse(server.URL + "/base/")
	p, err := New(Options{URLs: []*url.URL{target}, EjectAfter: 1, EjectFor: time.Second, MaxIdleConnections: 1,
		ConnectTimeout: time.Minute, IdleTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range 5 {
		r, _ := http.NewRequest(http.MethodGet, "http://front.example/a%2Fb//c?x=;y", nil)
		response, err := p.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if want := "front.example /base/a%2Fb//c?x=;y []"; string(body) != want {
			t.Errorf("the backend saw %s, want %s", body, want)
		}
	}
	if len(conns) != 1 {
		t.Errorf("%d connections", len(conns))
	}
}

// TestTLSBackend verifies an https backend's certificate.
func TestTLSBackend(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }))
	defer server.Close()
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	target, _ := url.Parse(server.URL)
	ca := x509.NewCertPool()
	ca.AddCert(server.Certificate())
	for _, test := range []struct {
		ca   *x509.CertPool
		want string
	}{{ca, "HTTP/1.1"}, {x509.NewCertPool(), "tls: failed to verify certificate: x509: certificate signed by unknown authority"}} {
		p, err := New(Options{URLs: []*url.URL{target}, TLS: &tls.Config{RootCAs: test.ca}, EjectAfter: 1, EjectFor: time.Second,
			ConnectTimeout: time.Minute, IdleTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		r, _ := http.NewRequest(http.MethodGet, "http://front.example/", nil)
		response, err := p.RoundTrip(r)
		if err != nil {
			var connect *ConnectError
			if !errors.As(err, &connect) || !strings.HasSuffix(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
			continue
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if string(body) != test.want {
			t.Errorf("%s, want %s", body, test.want)
		}
	}
}

func TestEmptyPool(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("no error")
	}
}
