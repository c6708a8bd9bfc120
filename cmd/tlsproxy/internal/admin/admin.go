package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options say what a Server tells. All but DemoLoad are required.
type Options struct {
	// Ready says why the proxy should get no connections now; nil if it should.
	Ready func() error
	// Health says what is out of order though the proxy serves on, such as a GPU
	// that failed. Nothing is.
	Health func() []string
	// Config returns the configuration that is in force, as YAML. It holds no secrets.
	Config func() []byte
	// Status returns what is to be told as JSON.
	Status func() any
	// Live returns what the live page shows, to be told as JSON.
	Live func() any
	// DemoLoad has a demonstration make load, or says why it does not; nil where there is none.
	DemoLoad func() error
	// Metrics gathers what Prometheus fetches.
	Metrics prometheus.Gatherer
	Logger  *slog.Logger
}

// Server answers HTTP requests in the clear.
type Server struct {
	http      *http.Server
	log       *slog.Logger
	following chan struct{} // has room for the clients of events
	closing   chan struct{}
	once      sync.Once
}

// Bounds of what a client can take.
const (
	headerTimeout  = 5 * time.Second
	idleTimeout    = time.Minute
	writeTimeout   = 2 * time.Minute // a profile takes as long as it is asked to, 30 seconds by default
	maxHeaderBytes = 16 << 10
	maxScrapes     = 4
)

// New returns a Server that is ready for Serve.
func New(o Options) *Server {
	s := &Server{log: o.Logger, following: make(chan struct{}, maxFollow), closing: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", o.healthz)
	mux.HandleFunc("GET /readyz", o.readyz)
	mux.HandleFunc("GET /config", o.config)
	mux.HandleFunc("GET /status", o.status)
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, EnableOpenMetrics: true,
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn)}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	for _, name := range []string{"{$}", "live.css", "live.js"} {
		mux.Handle("GET /"+name, page())
	}
	mux.HandleFunc("GET /events", s.events(o.Live))
	if o.DemoLoad != nil {
		mux.HandleFunc("POST /demo/load", o.load)
	}
	s.http = &http.Server{
		Handler: guard(http.NewCrossOriginProtection().Handler(mux)), ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	}
	return s
}

// guard keeps web pages that an operator has open elsewhere from reading what is
// told here: a page can have its name lead to this machine, but then that name is
// the Host.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if local(r) && !loopbackHost(r.Host) {
			http.Error(w, fmt.Sprintf("%q is not a name of this listener; use localhost or its address.", r.Host), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// local says whether a request came in on a loopback address.
func local(r *http.Request) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && at.IP.IsLoopback()
}

func loopbackHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Serve answers on ln until Close, when it returns nil, or until ln fails.
func (s *Server) Serve(ln net.Listener) error {
	s.log.Info("admin listener", "address", ln.Addr().String())
	if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin: %w", err)
	}
	return nil
}

// Close ends Serve, within a moment in which answers under way can end.
func (s *Server) Close() {
	s.once.Do(func() { close(s.closing) })
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
}

// healthz is for whoever would start the process again: it answers 200 while the
// process lives, and says what is out of order.
func (o *Options) healthz(w http.ResponseWriter, r *http.Request) {
	text(w, http.StatusOK, "ok")
	for _, line := range o.Health() {
		fmt.Fprintln(w, line)
	}
}

// readyz is for whoever sends connections here.
func (o *Options) readyz(w http.ResponseWriter, r *http.Request) {
	if err := o.Ready(); err != nil {
		text(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
		return
	}
	text(w, http.StatusOK, "ready")
}

func (o *Options) config(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	w.Write(o.Config())
}

func (o *Options) status(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(o.Status()); err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
}

func text(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, line)
}
