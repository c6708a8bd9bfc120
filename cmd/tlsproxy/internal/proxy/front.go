package proxy

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logging"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxyprotocol"
)

// refusedFront is what connections are counted under that are turned away
// because of who they come from, or of the header that they begin with.
const refusedFront = "listen.proxy_protocol"

// comesBy notes that c is from a proxy in front, if it is. It reports whether c
// may be there.
func (c *conn) comesBy(trust *proxyprotocol.Trust) bool {
	trusted := trust.Trusts(c.Conn.RemoteAddr())
	if trusted {
		c.trust, c.source = trust, netip.Addr{} // whose it is has yet to be told
	}
	return trusted || trust.Optional
}

// readFront reads what a proxy in front says of a connection. It reports
// whether the connection can go on: then the client's address is known, and
// counts.
func (s *Server) readFront(c *conn) bool {
	header, ahead, err := c.trust.Read(wire{c})
	if err == io.EOF { // not one within the header
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
	c.ahead, c.accepted = ahead, time.Now() // as far as the client's handshake goes
	c.received.Store(len(ahead) > 0)
	if header != nil {
		c.front = header
		c.remote, c.local = header.Source, header.Destination
	}
	c.source = sourceOf(c.RemoteAddr())
	if over := s.enterSource(c); over != (excess{}) {
		c.Close()
		s.noteShed(c, over)
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
		return []slog.Attr{slog.String("remote", withoutName(peer).String()), slog.String("reason", logging.Peer(reason, maxLoggedReason))}
	})
}

// RemoteAddr is the client's address, as far as a proxy in front has told it.
func (c *conn) RemoteAddr() net.Addr { return withoutName(c.peer()) }

// peer is RemoteAddr with the name that a client of a Unix socket goes by.
func (c *conn) peer() net.Addr {
	if c.remote != nil {
		return c.remote
	}
	return c.Conn.RemoteAddr()
}

// via is the address of the proxy in front.
func (c *conn) via() net.Addr { return withoutName(c.Conn.RemoteAddr()) }

// withoutName takes the name off the address of who connected to a Unix socket. That
// one can choose it, and "192.0.2.1:80" is a good name: net/http, X-Forwarded-For and
// all who parse the text would take it for an address.
func withoutName(a net.Addr) net.Addr {
	if _, ok := a.(*net.UnixAddr); ok {
		return nameless
	}
	return a
}

// nameless is how package net has the address of a socket without a name.
var nameless = &net.UnixAddr{Net: "unix", Name: "@"}

// LocalAddr is the address that the client connected to.
func (c *conn) LocalAddr() net.Addr {
	if c.local != nil {
		return c.local
	}
	return c.Conn.LocalAddr()
}

// backendClient is what pools with a PROXY header tell their backends of c. The
// state is nil if TLS does not end here.
func (c *conn) backendClient(state *tls.ConnectionState) *backend.Client {
	c.toldMu.Lock()
	defer c.toldMu.Unlock()
	if c.told == nil {
		c.told = newBackendClient(c, state)
		if c.closed.Load() {
			c.told.Close()
		}
	}
	return c.told
}

// newBackendClient returns a Client that tells of c in either version.
func newBackendClient(c *conn, state *tls.ConnectionState) *backend.Client {
	of := proxyprotocol.Client{Source: c.peer(), Destination: c.LocalAddr(), ServerName: c.sni, TLS: state, Front: c.front}
	if state != nil && state.CurveID != 0 {
		of.Group = groups.RegisteredName(state.CurveID)
	}
	return backend.NewClient(of.Format)
}

// closeBackendClient gives up what is kept for c.
func (c *conn) closeBackendClient() {
	c.toldMu.Lock()
	defer c.toldMu.Unlock()
	if c.told != nil {
		c.told.Close()
	}
}
