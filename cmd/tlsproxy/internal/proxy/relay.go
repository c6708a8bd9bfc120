package proxy

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/accesslog"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logging"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxyprotocol"
)

// relay is a client's connection whose bytes go to a backend as they are: those
// within TLS, or TLS itself.
type relay struct {
	server *Server
	conn   *conn
	client halfCloser           // what is read from and written to
	tls    *tls.ConnectionState // of the TLS that ends here; nil: none does
	start  time.Time

	backend   string        // "": none yet
	connected time.Duration // how long that took
	up, down  atomic.Int64  // bytes that were taken
}

// halfCloser is a connection whose directions end one by one.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// serve runs in a goroutine of its own until both directions have ended.
func (r *relay) serve() {
	s := r.server
	defer r.client.Close()
	over, ok := s.beginRequest()
	if !ok {
		return // connections are being cut
	}
	defer s.endRequest()
	if over {
		s.noteShed(r.conn, excess{"limits.requests", r.conn.live.limits.Requests})
		return
	}
	if level, ok := s.accessLevel(); ok {
		defer func() { r.record().Log(s.log, level) }()
	}
	ctx := r.conn.context()
	if r.conn.host.Pool.Proxy() != proxyprotocol.None {
		ctx = backend.WithClient(ctx, r.conn.backendClient(r.tls))
	}
	to, err := r.conn.host.Pool.Dial(ctx, r.conn.RemoteAddr().String())
	r.connected = time.Since(r.start)
	if err != nil {
		r.trace(err)
		r.failed(err)
		return
	}
	defer to.Close()
	r.backend = to.Backend()
	r.between(to)
	r.trace(nil)
}

// failed tells of a connection that no backend took.
func (r *relay) failed(err error) {
	if r.conn.context().Err() != nil {
		return // cut
	}
	r.server.limiters.backends.Log(slog.LevelWarn, "no backend took a connection", func() []slog.Attr {
		return append(r.record().Identify(), slog.String("err", logging.Peer(err.Error(), 512)))
	})
}

// between copies in both directions. Where one ends its end is passed on, and
// the other goes on; where one fails both are over.
func (r *relay) between(to halfCloser) {
	client := newTunnel(r.client, nil, time.Duration(r.conn.live.timeouts.Tunnel), func() { to.Close() })
	defer client.Close()
	stop := context.AfterFunc(r.conn.context(), func() { to.Close() }) // the client is cut then
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { r.copy(to, client, &r.up, to, client) })
	r.copy(client, to, &r.down, to, client)
	both.Wait()
}

// copy is one direction. On failure it closes both ends, so that the other
// direction ends too; also if the end of this one cannot be passed on, for which
// the other side would wait.
func (r *relay) copy(dst, src halfCloser, taken *atomic.Int64, ends ...halfCloser) {
	buffer := copyBuffers.Get()
	defer copyBuffers.Put(buffer)
	n, err := io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, buffer)
	taken.Add(n)
	if err == nil {
		err = dst.CloseWrite()
	}
	if err != nil {
		for _, end := range ends {
			end.Close()
		}
	}
}

// record describes the connection for the log.
func (r *relay) record() *accesslog.Connection {
	return &accesslog.Connection{Client: r.conn.client(r.tls), Mode: string(r.conn.host.Mode), Pool: r.conn.host.Pool.Name(), Backend: r.backend,
		Received: r.up.Load(), Sent: r.down.Load(), Duration: time.Since(r.start), Connected: r.connected}
}

// relayTLS serves the bytes within a client's TLS.
func (s *Server) relayTLS(c *conn, t halfCloser, state tls.ConnectionState) {
	s.startRelay(&relay{conn: c, client: unannounced{t, c}, tls: &state})
}

// unannounced is a client's TLS of which Close says nothing to the client: close_notify
// means that all was sent (RFC 8446, section 6.1), and is for CloseWrite, when the
// backend has ended its direction. A client would otherwise take what a backend broke
// off, or what was refused or cut, for the whole.
type unannounced struct {
	halfCloser
	beneath *conn
}

// Close closes what is beneath TLS.
func (u unannounced) Close() error { return u.beneath.Close() }

// relayWhole serves a client's TLS itself, from its ClientHello on.
func (s *Server) relayWhole(c *conn) {
	first := c.kept
	c.forgetHello()
	c.silent = false
	c.finishHandshake()
	s.startRelay(&relay{conn: c, client: &unread{c, first}})
}

func (s *Server) startRelay(r *relay) {
	r.server, r.start = s, time.Now()
	r.conn.underway.Add(1) // until it is closed
	r.conn.limitLifetime(nil)
	s.working.Go(r.serve)
}
