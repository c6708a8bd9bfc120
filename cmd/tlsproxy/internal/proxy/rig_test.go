package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/memnet"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxyprotocol"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/routing"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/tickets"
	"github.com/ctrutls/ctrutls/provider"
)

// opened is the provider of both sides of all handshakes.
var opened *provider.Provider

func TestMain(m *testing.M) {
	if !groups.HookPresent() {
		log.Fatal("proxy's tests need the hook in crypto/tls; run them with go run ./tlsext/gotls test ./cmd/tlsproxy/...")
	}
	var err error
	if opened, err = provider.Open(provider.Config{}); err != nil {
		log.Fatal(err)
	}
	if err := groups.Register(opened); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	opened.Close()
	// Where net/http cannot read a request it gives its client half a second to take the
	// answer, which is longer than goleak waits.
	lingering := goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait")
	if err := goleak.Find(lingering); code == 0 && err != nil {
		log.Print(err)
		code = 1
	}
	os.Exit(code)
}

// rig is a Server with backends, and what a client needs to reach it.
type rig struct {
	t       *testing.T
	config  *config.Config
	server  *Server
	options Options
	log     *recorder
	roots   *x509.CertPool
	address string                                  // of the proxy, if it is on a socket
	dial    func(context.Context) (net.Conn, error) // to the proxy, without TLS
	pools   map[string]*backend.Pool
	pool    *backend.Pool    // the default one
	back    *memnet.Listener // where the backend is, if it is in memory
	stopped bool
}

// hosts are what the rig's certificate is for.
var hosts = []string{"front.example", "127.0.0.1", "example.org", "*.example.org"}

// newRig starts a Server on a socket, in front of one backend for each handler.
func newRig(t *testing.T, change func(*config.Config), handlers ...http.HandlerFunc) *rig {
	t.Helper()
	var urls []*url.URL
	for _, h := range handlers {
		b := httptest.NewUnstartedServer(h)
		b.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		b.Config.Protocols = new(http.Protocols)
		b.Config.Protocols.SetHTTP1(true)
		b.Config.Protocols.SetUnencryptedHTTP2(true)
		b.Start()
		t.Cleanup(b.Close)
		u, err := url.Parse(b.URL)
		if err != nil {
			t.Fatal(err)
		}
		urls = append(urls, u)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := assemble(t, change, backend.Options{URLs: urls}, ln)
	r.address = ln.Addr().String()
	r.dial = func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", r.address)
	}
	return r
}

// newMemRig is newRig for a synctest bubble: client, proxy and backend are
// joined by memory. Without a handler the test itself accepts on back.
func newMemRig(t *testing.T, change func(*config.Config), handler http.HandlerFunc) *rig {
	t.Helper()
	front, back := memnet.Listen(), memnet.Listen()
	if handler != nil {
		b := &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
		go b.Serve(back)
		t.Cleanup(func() { b.Close() })
	}
	r := assemble(t, change, backend.Options{
		URLs: []*url.URL{{Scheme: "http", Host: "backend.example"}},
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return back.Dial(ctx) },
	}, front)
	r.dial, r.back = front.Dial, back
	return r
}

func assemble(t *testing.T, change func(*config.Config), o backend.Options, ln net.Listener) *rig {
	t.Helper()
	c := config.Default()
	if change != nil {
		change(c)
	}
	cert, err := certificates.SelfSigned(hosts...)
	if err != nil {
		t.Fatal(err)
	}
	store, err := certificates.NewStore([]*tls.Certificate{cert})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, config: c, log: newRecorder(), roots: x509.NewCertPool()}
	r.roots.AddCert(cert.Leaf)
	logger := slog.New(r.log)
	o.EjectAfter, o.EjectFor, o.MaxIdleConnections = c.Backends.EjectAfter, time.Duration(c.Backends.EjectFor), c.Backends.MaxIdleConnections
	o.ConnectTimeout, o.ResponseTimeout, o.IdleTimeout = time.Duration(c.Timeouts.BackendConnect), time.Duration(c.Timeouts.BackendResponse), time.Duration(c.Timeouts.BackendIdle)
	o.WriteTimeout, o.ReadTimeout = time.Duration(c.Timeouts.BackendWrite), time.Duration(c.Timeouts.BackendRead)
	o.MaxHeaderBytes, o.Logger = int64(c.Limits.HeaderBytes), logger
	o.Retries = c.Backends.Retries
	if c.Backends.Protocol == config.BackendH2C {
		o.Protocol = backend.H2C
	}
	r.pools = map[string]*backend.Pool{}
	for _, name := range append(slices.Collect(maps.Keys(c.Pools)), config.DefaultPool) {
		of := o
		of.Name = name
		if p, ok := c.Pools[name]; ok {
			of.Proxy = map[config.SendProxy]proxyprotocol.Version{config.SendProxyV1: proxyprotocol.V1, config.SendProxyV2: proxyprotocol.V2}[p.ProxyProtocol]
			of.URLs = nil
			for _, u := range p.URLs {
				of.URLs = append(of.URLs, u.URL)
			}
		}
		if r.pools[name], err = backend.New(of); err != nil {
			t.Fatal(err)
		}
	}
	r.pool = r.pools[config.DefaultPool]
	table, err := routing.New(c, r.pools)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := tickets.New(tickets.Options{Period: time.Hour, Lifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	r.options = Options{Config: c, Certificates: store, ClientCAs: clientCAs, Hosts: table, Tickets: keys, Logger: logger}
	r.server = New(r.options)
	served := make(chan error, 1)
	go func() { served <- r.server.Serve(ln) }()
	t.Cleanup(func() {
		r.stop()
		if err := <-served; err != ErrClosed {
			t.Errorf("Serve: %v", err)
		}
		for _, p := range r.pools {
			p.Close()
		}
	})
	return r
}

// stop shuts the server down without waiting for anybody.
func (r *rig) stop() {
	if !r.stopped {
		r.stopped = true
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		r.server.Shutdown(ctx)
	}
}

// tlsConfig is a client's that offers groups, or its default ones.
func (r *rig) tlsConfig(ids ...tls.CurveID) *tls.Config {
	return &tls.Config{RootCAs: r.roots, ServerName: "front.example", CurvePreferences: ids}
}

// connect makes a TLS connection that speaks HTTP/1.1.
func (r *rig) connect() *tls.Conn {
	r.t.Helper()
	return r.connectWith(r.tlsConfig())
}

// connectWith makes a TLS connection by a client's policy.
func (r *rig) connectWith(policy *tls.Config) *tls.Conn {
	r.t.Helper()
	raw, err := r.dial(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	c := tls.Client(raw, policy)
	if err := c.Handshake(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { raw.Close() })
	return c
}

// client speaks HTTP/1.1, or HTTP/2 only.
func (r *rig) client(http2 bool, ids ...tls.CurveID) *http.Client {
	transport := &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return r.dial(ctx) },
		TLSClientConfig:    r.tlsConfig(ids...),
		DisableCompression: true,
		Protocols:          new(http.Protocols),
	}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetHTTP2(http2)
	r.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// get sends one request and returns the status and body of the answer.
func (r *rig) get(c *http.Client, path string) (int, string) {
	r.t.Helper()
	response, err := c.Get("https://front.example" + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// forBoth runs a test over HTTP/1.1 and over HTTP/2.
func forBoth(t *testing.T, test func(t *testing.T, http2 bool)) {
	t.Run("HTTP1", func(t *testing.T) { test(t, false) })
	t.Run("HTTP2", func(t *testing.T) { test(t, true) })
}

// hello is the simplest backend.
func hello(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }

// recorder is a slog.Handler that keeps the lines, without their times.
type recorder struct {
	slog.Handler
	mu    *sync.Mutex
	lines *bytes.Buffer
	more  *sync.Cond
}

func newRecorder() *recorder {
	r := &recorder{mu: new(sync.Mutex), lines: new(bytes.Buffer)}
	r.more = sync.NewCond(r.mu)
	r.Handler = slog.NewTextHandler(r, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})
	return r
}

func (r *recorder) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.more.Broadcast()
	return r.lines.Write(line)
}

// wait returns the first line that holds text, once there is one.
func (r *recorder) wait(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		for line := range strings.Lines(r.lines.String()) {
			if strings.Contains(line, text) {
				return strings.TrimSuffix(line, "\n")
			}
		}
		r.more.Wait()
	}
}

// String returns all lines so far.
func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines.String()
}

// reset forgets the lines so far.
func (r *recorder) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines.Reset()
}
