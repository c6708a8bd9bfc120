package proxy

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logging"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxyprotocol"
)

// refusedFront is what connections are counted under that are turned away
// because of who they come from, or of the header that they begin with.
const refusedFront = "listen.proxy_protocol"

// newFrontConn is newConn for a listener that proxies in front connect to. It
// is nil if the connection may not be there.
func newFrontConn(s *Server, raw net.Conn, trust *proxyprotocol.Trust) *conn {
	trusted := trust.Trusts(raw.RemoteAddr())
	if !trusted && !trust.Optional {
		return nil
	}
	c := newConn(s, raw)
	if trusted {
		c.trust, c.source = trust, netip.Addr{} // whose it is has yet to be told
	}
	return c
}

// readFront reads what a proxy in front says of a connection. It reports
// whether the connection can go on: then the client's address is known, and
// counts.
func (s *Server) readFront(c *conn) bool {
	header, ahead, err := c.trust.Read(c.Conn)
	if errors.Is(err, io.EOF) {
		s.log.Debug("connection closed before its PROXY header", "remote", c.RemoteAddr().String())
		c.Close()
		return false
	}
	if err != nil {
		c.Close()
		if !s.isDraining() {
			s.noteRefusedFront(c.Conn.RemoteAddr(), err.Error())
		}
		return false
	}
	c.ahead = ahead
	if header != nil {
		c.front = header
		c.remote, c.local = header.Source, header.Destination
	}
	c.source = sourceOf(c.RemoteAddr())
	if limit, value := s.enterSource(c); limit != "" {
		c.Close()
		s.noteShed(c.RemoteAddr(), limit, value)
		return false
	}
	return true
}

var errUntrusted = errors.New("the connection is not from one of listen.proxy_protocol.from")

// noteRefusedFront tells of a connection that was closed for what it is.
func (s *Server) noteRefusedFront(peer net.Addr, reason string) {
	s.mu.Lock()
	s.stats.Shed++
	s.mu.Unlock()
	s.observer.ObserveShed(refusedFront)
	s.limiters.shed.Log(slog.LevelWarn, "connection refused", func() []slog.Attr {
		return []slog.Attr{slog.String("remote", peer.String()), slog.String("reason", logging.Peer(reason, maxLoggedReason))}
	})
}

// RemoteAddr is the client's address, as far as a proxy in front has told it.
func (c *conn) RemoteAddr() net.Addr {
	if c.remote != nil {
		return c.remote
	}
	return c.Conn.RemoteAddr()
}

// LocalAddr is the address that the client connected to.
func (c *conn) LocalAddr() net.Addr {
	if c.local != nil {
		return c.local
	}
	return c.Conn.LocalAddr()
}

// frontAttrs say by which proxy a connection came, and as which it knows it.
func (c *conn) frontAttrs() (attrs []slog.Attr) {
	if c.front == nil {
		return nil
	}
	attrs = append(attrs, slog.String("via", c.Conn.RemoteAddr().String()))
	if id := c.front.UniqueID; id != "" {
		attrs = append(attrs, slog.String("unique_id", logging.Peer(id, maxLoggedName)))
	}
	return attrs
}

// backendClient is what pools with a PROXY header tell their backends of c. The
// state is nil if TLS does not end here.
func (c *conn) backendClient(state *tls.ConnectionState) *backend.Client {
	c.clientMu.Lock()
	defer c.clientMu.Unlock()
	if c.client == nil {
		c.client = newBackendClient(c, state)
		if c.closed.Load() {
			c.client.Close()
		}
	}
	return c.client
}

// newBackendClient returns a Client that tells of c in either version.
func newBackendClient(c *conn, state *tls.ConnectionState) *backend.Client {
	of := proxyprotocol.Client{Source: c.RemoteAddr(), Destination: c.LocalAddr(), ServerName: c.sni, TLS: state, Front: c.front}
	if state != nil && state.CurveID != 0 {
		of.Group = groups.RegisteredName(state.CurveID)
	}
	return backend.NewClient(of.Format)
}

// closeBackendClient gives up what is kept for c.
func (c *conn) closeBackendClient() {
	c.clientMu.Lock()
	defer c.clientMu.Unlock()
	if c.client != nil {
		c.client.Close()
	}
}
