package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logging"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxyprotocol"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/routing"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/tickets"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/tracing"
)

// Issuer has certificates that are issued as they are needed. Its methods are
// called concurrently.
type Issuer interface {
	// Serves reports whether it is responsible for a server name.
	Serves(name string) bool
	// Certificate returns one for a name that it serves, or an error if it has none
	// yet.
	Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Challenge returns the policy for a handshake of its own; nil: it is a client's.
	Challenge(*tls.ClientHelloInfo) *tls.Config
}

// Options configure a Server. All but Tickets, Issuer, Sign, GPUs, Logger, Observer and Tracer are
// required, and ClientCAs where the configuration names some.
type Options struct {
	Config       *config.Config
	Certificates *certificates.Store                  // with those of hosts in their CertificateSet
	ClientCAs    map[string]*certificates.Authorities // by the file that the configuration names
	Tickets      *tickets.Keys                        // nil: sessions can't be resumed
	Issuer       Issuer                               // nil: none
	// Sign, unless nil, gives the certificate that was chosen for a handshake a key
	// that signs in another way, and has each Signature told of, in the handshake's
	// goroutine.
	Sign     func(cert *tls.Certificate, told func(Signature)) *tls.Certificate
	GPUs     int // that key exchanges are computed on, as provider.gpu says
	Hosts    *routing.Table
	Logger   *slog.Logger    // nil: slog.Default()
	Observer Observer        // nil: nobody
	Tracer   *tracing.Tracer // nil: nothing is traced
}

// Signature tells of a signature by Options.Sign that was made, or was not.
type Signature struct {
	Duration     time.Duration
	Queue, Batch time.Duration // of it: waiting for a batch on a GPU, and that itself; 0 and 0 where no GPU was to sign
}

// Server is a TLS-terminating reverse proxy. Its methods may be called
// concurrently.
type Server struct {
	live     atomic.Pointer[setup]
	log      *slog.Logger
	limiters limiters
	observer Observer
	tracer   *tracing.Tracer // nil: none

	http  *http.Server
	queue *queue          // connections whose handshake is done, on their way to http
	base  context.Context // of all requests and handshakes
	cut   context.CancelFunc

	received, sent atomic.Uint64 // bytes, from and to clients

	leaving   atomic.Bool    // connections end with their next answer
	accepting sync.WaitGroup // Serve, for each listener

	working sync.WaitGroup // handshakes and requests, tunnels included

	mu        sync.Mutex
	left      bool // nobody accepts any more
	draining  bool // no new connections
	cutting   bool // no new requests either
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{} // from accept to close
	books     books
	requests  int
	settled   chan struct{} // closed when draining and no handshake is left
	empty     chan struct{} // closed when there are no new connections and none is left
	stats     Stats
}

// limiters keep one kind of line each from flooding the log.
type limiters struct {
	handshakes, shed, backends, server *logging.Limiter
}

// Stats is a snapshot of a Server's counters. But for Open, Handshaking, Waiting and
// Underway they only grow.
type Stats struct {
	Open        int                    // connections, those in their handshake included
	Handshaking int                    // connections that are in their handshake
	Waiting     int                    // those of them that wait for their turn to be computed
	Underway    int                    // requests, connections in mode tcp or passthrough included
	Accepted    uint64                 // connections, those shed not included
	Received    uint64                 // bytes from clients, as they were on the wire
	Sent        uint64                 // bytes to clients, the same
	Handshakes  map[tls.CurveID]uint64 // finished, by group; 0 is a handshake without one
	Failed      uint64                 // handshakes
	Shed        uint64                 // connections closed at once because of a limit
}

// New returns a Server that is ready for Serve. Call Shutdown in the end.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Observer == nil {
		o.Observer = silent{}
	}
	perSecond := o.Config.Log.FailuresPerSecond
	limiter := func(what string) *logging.Limiter { return logging.NewLimiter(o.Logger, what, perSecond) }
	s := &Server{
		log: o.Logger,
		limiters: limiters{
			handshakes: limiter("failed handshakes"),
			shed:       limiter("connections over the limit"),
			backends:   limiter("requests that no backend answered"),
			server:     limiter("HTTP server errors"),
		},
		observer:  o.Observer,
		tracer:    o.Tracer,
		queue:     newQueue(),
		listeners: map[net.Listener]struct{}{},
		conns:     map[*conn]struct{}{},
		books:     newBooks(o.Config.Limits.Sources),
		settled:   make(chan struct{}),
		empty:     make(chan struct{}),
		stats:     Stats{Handshakes: map[tls.CurveID]uint64{}},
	}
	s.base, s.cut = context.WithCancel(context.Background())
	s.live.Store(newSetup(s, o))
	s.http = s.httpServer()
	go s.http.Serve(s.queue)
	return s
}

// httpServer serves connections whose TLS handshake is done. There is no
// ReadTimeout and no WriteTimeout, as they would bound whole messages and so
// end long streams. The waiting for each step is bounded instead: for the client
// by exchange and conn, for the backend by package backend.
// What it is given here holds for the Server's life: package config marks those
// keys as taking effect at a restart.
func (s *Server) httpServer() *http.Server {
	first := s.live.Load()
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.live.Load().requests.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: time.Duration(first.timeouts.ReadHeader),
		IdleTimeout:       time.Duration(first.timeouts.Idle),
		MaxHeaderBytes:    int(first.limits.HeaderBytes),
		ErrorLog:          log.New(withoutPanics{s.limiters.server}, "", 0),
		BaseContext:       func(net.Listener) context.Context { return s.base },
		ConnContext:       withConn,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: first.limits.Streams, MaxReadFrameSize: maxFrameBytes,
			MaxReceiveBufferPerConnection: maxAheadBytes, MaxReceiveBufferPerStream: maxAheadBytes},
		Protocols: new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	return server
}

// maxFrameBytes is the least that HTTP/2 allows (RFC 9113, section 4.2): each
// connection keeps a buffer as large as the largest frame that it has seen.
const maxFrameBytes = 16 << 10

// maxAheadBytes is what the client of one HTTP/2 connection can have the proxy hold of bodies
// that backends have not taken. Less would make uploads from far away slow: a client has no
// more than that on the way.
const maxAheadBytes = 1 << 20

type connKey struct{}

// withConn lets requests know their connection.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c.(*tls.Conn).NetConn().(*conn))
}

func connOf(ctx context.Context) *conn { return ctx.Value(connKey{}).(*conn) }

// accessLevel is the level at which requests and connections are logged; it is
// not ok if they are not.
func (s *Server) accessLevel() (level slog.Level, ok bool) {
	if s.live.Load().accessLog {
		return slog.LevelInfo, true
	}
	return slog.LevelDebug, s.log.Enabled(context.Background(), slog.LevelDebug)
}

// ErrClosed is what Serve returns once Shutdown was called.
var ErrClosed = errors.New("proxy: server closed")

// Serve accepts connections on ln until Shutdown, when it returns ErrClosed, or
// until ln fails for good. It closes ln. Several may run at once.
func (s *Server) Serve(ln net.Listener) error { return s.ServeBehind(ln, nil) }

// ServeBehind is Serve for a listener that proxies in front connect to, which
// tell by a PROXY header who their clients are. Whom to believe says trust; nil:
// connections are the clients' own.
func (s *Server) ServeBehind(ln net.Listener, trust *proxyprotocol.Trust) error {
	if !s.track(ln) {
		ln.Close()
		return ErrClosed
	}
	defer s.untrack(ln)
	return s.accept(ln, trust)
}

func (s *Server) track(ln net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining || s.leaving.Load() {
		return false
	}
	s.listeners[ln] = struct{}{}
	s.accepting.Add(1)
	return true
}

func (s *Server) untrack(ln net.Listener) {
	ln.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, ln)
	s.accepting.Done()
}

// Shutdown stops accepting, lets handshakes, requests and upgraded connections
// under way come to their end until ctx is done, and then cuts what is left. It
// returns how many connections it had to cut, as an error if there were any.
func (s *Server) Shutdown(ctx context.Context) error {
	defer s.limiters.close()
	s.stopAccepting()
	s.settle(ctx)
	var err error
	if n := s.cutConnections(); n > 0 {
		err = fmt.Errorf("proxy: the time to drain was over; connections cut: %d", n)
	}
	s.queue.Close()
	s.http.Close()
	s.working.Wait()
	return err
}

// stopAccepting closes the listeners, and the connections that have not sent a
// ClientHello: nobody's work is lost with them.
func (s *Server) stopAccepting() {
	s.mu.Lock()
	s.draining = true
	for ln := range s.listeners {
		ln.Close()
	}
	var silent []*conn
	for c := range s.conns {
		if !c.spoke.Load() {
			silent = append(silent, c)
		}
	}
	s.noteProgress()
	s.mu.Unlock()
	for _, c := range silent {
		c.Close()
	}
}

// settle waits until every connection is closed or ctx is done. Handshakes
// come first, as those that finish need the HTTP server to be there. It closes
// idle connections, and tells HTTP/2 clients to go away.
func (s *Server) settle(ctx context.Context) {
	select {
	case <-s.settled:
	case <-ctx.Done():
		return
	}
	go s.sendAway(ctx)
	if s.http.Shutdown(ctx) != nil {
		return
	}
	select { // upgraded connections, which the HTTP server has let go of
	case <-s.empty:
	case <-ctx.Done():
	}
}

// sendAway does for connections with an HTTP server of their own what Shutdown does for
// those of the common one, until none is left or ctx is done. Now and then it does so
// again: net/http tells no connection that is new to it.
func (s *Server) sendAway(ctx context.Context) {
	const pause = 500 * time.Millisecond
	again := time.NewTicker(pause)
	defer again.Stop()
	for {
		for _, c := range s.connections() {
			if l := c.lifetime.Load(); l != nil {
				l.goAway()
			}
		}
		select {
		case <-again.C:
		case <-s.empty:
			return
		case <-ctx.Done():
			return
		}
	}
}

// connections are those that are open.
func (s *Server) connections() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.conns))
}

// cutConnections closes what is still open and ends its requests. It counts them
// first: some close by themselves once their request is ended.
func (s *Server) cutConnections() int {
	s.mu.Lock()
	s.cutting = true
	s.mu.Unlock()
	left := s.connections()
	s.cut()
	for _, c := range left {
		c.Close()
	}
	return len(left)
}

// noteProgress tells Leave and Shutdown how far the draining got; s.mu is held.
func (s *Server) noteProgress() {
	if s.draining && s.books.handshaking == 0 {
		closeOnce(s.settled)
	}
	if (s.draining || s.left) && len(s.conns) == 0 {
		closeOnce(s.empty)
	}
}

// closeOnce closes a channel that its caller's lock guards, if it is open.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// beginRequest counts a request in, and reports whether it is over the limit.
// It is not ok once requests are being cut. Each that is ok ends with
// endRequest.
func (s *Server) beginRequest() (over, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cutting {
		return false, false
	}
	s.working.Add(1)
	s.requests++
	return s.requests > s.live.Load().limits.Requests, true
}

func (s *Server) endRequest() {
	s.mu.Lock()
	s.requests--
	s.mu.Unlock()
	s.working.Done()
}

// Stats returns the counters as they stand.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Waiting = s.live.Load().turns.length()
	st.Open, st.Handshaking, st.Underway = len(s.conns), s.books.handshaking, s.requests
	st.Received, st.Sent = s.received.Load(), s.sent.Load()
	st.Handshakes = make(map[tls.CurveID]uint64, len(s.stats.Handshakes))
	for id, n := range s.stats.Handshakes {
		st.Handshakes[id] = n
	}
	return st
}

func (l limiters) close() {
	for _, one := range []*logging.Limiter{l.handshakes, l.shed, l.backends, l.server} {
		one.Close()
	}
}

// queue is the net.Listener through which connections reach the HTTP server.
type queue struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newQueue() *queue { return &queue{conns: make(chan net.Conn), closed: make(chan struct{})} }

// deliver hands a connection on, or closes it if the queue is closed.
func (q *queue) deliver(c net.Conn) {
	select {
	case q.conns <- c:
	case <-q.closed:
		c.Close()
	}
}

// Accept waits for the next connection.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (q *queue) Close() error {
	q.once.Do(func() { close(q.closed) })
	return nil
}

// Addr names no place: connections come from several listeners.
func (q *queue) Addr() net.Addr { return &net.TCPAddr{} }
