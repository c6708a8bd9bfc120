package proxy

import (
	"context"
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// A lifetime ends a connection that has lasted long enough: first in a way that costs
// its client nothing, and after the time to drain by cutting it. Its HTTP server is for
// this one connection: net/http closes idle connections, and tells HTTP/2 clients to go
// away (GOAWAY; RFC 9113, section 6.8), for a whole server only.
type lifetime struct {
	conn   *conn
	drain  time.Duration
	http   *http.Server    // nil: what is relayed cannot be asked to end
	ctx    context.Context // of what goes over the connection
	cancel context.CancelFunc

	mu    sync.Mutex
	timer *time.Timer // nil once the connection is closed
	over  bool        // the connection is to end
	cut   bool
}

// lifetimeJitter is the share of a lifetime by which connections end sooner, at random
// and at most, so that clients that came together do not all come back together.
const lifetimeJitter = 10 // a tenth

// limitLifetime begins the lifetime of a connection whose handshake is done, unless it
// may last as long as it likes. server is nil where the connection is relayed.
func (c *conn) limitLifetime(server *http.Server) {
	most := time.Duration(c.live.timeouts.Lifetime)
	if most == 0 {
		return
	}
	l := &lifetime{conn: c, drain: time.Duration(c.live.timeouts.Drain), http: server}
	l.ctx, l.cancel = context.WithCancel(c.server.base)
	most -= rand.N(most/lifetimeJitter + 1)
	l.mu.Lock()
	l.timer = time.AfterFunc(most-time.Since(c.accepted), l.end)
	l.mu.Unlock()
	c.lifetime.Store(l)
	if c.closed.Load() { // before it could be found
		l.stop()
	}
}

// context is that of what goes over c, until c is cut.
func (c *conn) context() context.Context {
	if l := c.lifetime.Load(); l != nil {
		return l.ctx
	}
	return c.server.base
}

// end lets the connection go.
func (l *lifetime) end() {
	l.mu.Lock()
	if l.timer != nil {
		l.over = true
		l.timer = time.AfterFunc(l.drain, l.cutOff)
	}
	l.mu.Unlock()
	l.letGo()
}

// letGo closes the connection if it is idle, and else after the requests that are under
// way, as they are answered.
func (l *lifetime) letGo() {
	if l.http == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // it is not waited for
	l.http.Shutdown(ctx)
}

// cutOff ends the connection and what still goes over it.
func (l *lifetime) cutOff() {
	l.mu.Lock()
	l.cut = l.timer != nil
	l.mu.Unlock()
	l.cancel()
	l.conn.Close()
}

// stop is called when the connection is closed; it tells whether its time was over,
// and whether it was cut.
func (l *lifetime) stop() (over, cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	l.cancel()
	return l.over, l.cut
}

// serveHTTP hands a connection to an HTTP server: that of all, or one of its own.
func (s *Server) serveHTTP(c *conn, t *tls.Conn) {
	if c.live.timeouts.Lifetime == 0 {
		s.queue.deliver(t)
		return
	}
	own := s.httpServer()
	own.BaseContext = func(net.Listener) context.Context { return c.context() }
	c.limitLifetime(own)
	only := &single{conn: t}
	own.Serve(only) // returns when it has begun
	if only.conn != nil {
		t.Close() // its time was over already
	}
}

// single is a net.Listener with one connection.
type single struct{ conn net.Conn }

// Accept returns the connection, the first time.
func (s *single) Accept() (net.Conn, error) {
	if s.conn == nil {
		return nil, io.EOF
	}
	c := s.conn
	s.conn = nil
	return c, nil
}

// Close does nothing: the connection is the HTTP server's.
func (*single) Close() error { return nil }

// Addr names no place: connections come from several listeners.
func (*single) Addr() net.Addr { return &net.TCPAddr{} }
