package proxy

import (
	"context"
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

// A lifetime ends a connection that has lasted long enough: first in a way that costs
// its client nothing, and after the time to drain by cutting it. An HTTP/1.1 client is
// told with its next answer; closing the connection while it is idle could meet a request
// of which the client would then not know what became. An HTTP/2 client is told at once to
// go away (GOAWAY; RFC 9113, section 6.8), which net/http does for a whole server only: so
// its connection has a server of its own.
type lifetime struct {
	conn   *conn
	drain  time.Duration
	http2  *http.Server    // nil: another protocol is spoken
	ctx    context.Context // of what goes over the connection
	cancel context.CancelFunc
	over   atomic.Bool // the connection is to end

	mu    sync.Mutex
	timer *time.Timer // nil once the connection is closed
	cut   bool        // while something went over it
}

// lifetimeJitter is the share of a lifetime by which connections end sooner, at random
// and at most, so that clients that came together do not all come back together.
const lifetimeJitter = 10 // a tenth

// limitLifetime begins the lifetime of a connection whose handshake is done, unless it
// may last as long as it likes. http2 is its own server, if it has one.
func (c *conn) limitLifetime(http2 *http.Server) {
	most := time.Duration(c.live.timeouts.Lifetime)
	if most == 0 {
		return
	}
	l := &lifetime{conn: c, drain: time.Duration(c.live.timeouts.Drain), http2: http2}
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
		l.over.Store(true)
		l.timer = time.AfterFunc(l.drain, l.cutOff)
	}
	l.mu.Unlock()
	l.goAway()
}

// isOver reports whether the connection is to end.
func (c *conn) isOver() bool {
	l := c.lifetime.Load()
	return l != nil && l.over.Load()
}

// goAway tells an HTTP/2 client to begin no further requests. The connection closes when
// those under way are answered.
func (l *lifetime) goAway() {
	if l.http2 == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // it is not waited for
	l.http2.Shutdown(ctx)
}

// cutOff ends the connection and what still goes over it.
func (l *lifetime) cutOff() {
	l.mu.Lock()
	l.cut = l.timer != nil && l.conn.underway.Load() > 0
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
	return l.over.Load(), l.cut
}

// serveHTTP hands a connection to an HTTP server: that of all, or one of its own.
func (s *Server) serveHTTP(c *conn, t *tls.Conn, protocol string) {
	if c.live.timeouts.Lifetime == 0 || protocol != string(config.ProtocolHTTP2) {
		c.limitLifetime(nil)
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
