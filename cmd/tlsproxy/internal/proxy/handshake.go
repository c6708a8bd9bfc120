package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/accesslog"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logging"
	"github.com/ctrutls/ctrutls/internal/panics"
)

// handshake runs in a goroutine of its own from accept until the connection is
// handed to the HTTP server or closed. Until its client has said something that could
// be a ClientHello the connection costs little.
func (s *Server) handshake(c *conn) {
	defer s.working.Done()
	defer s.handshakeDone(c)
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("panic in a handshake", "remote", c.RemoteAddr().String(), "panic", panics.Text(p), "place", panics.Place())
			c.Close()
		}
	}()
	if c.trust != nil && !s.readFront(c) {
		return
	}
	if err := c.awaitHello(); err != nil {
		s.handshakeFailed(c, tls.ConnectionState{}, err)
		return
	}
	if !c.turn.take(s.base) {
		c.Close()
		s.noteShed(c, c.live.turns.reached())
		return
	}
	s.negotiate(c)
}

// negotiate is the handshake from the ClientHello on. The context bounds it: unlike
// deadlines it also reaches a key exchange that is waiting to be computed.
func (s *Server) negotiate(c *conn) {
	growStack()
	ctx, cancel := context.WithDeadline(s.base, c.handshakeDeadline())
	defer cancel()
	defer c.turn.end()
	t := tls.Server(c, c.live.tls)
	err := t.HandshakeContext(groups.WithObserver(ctx, c.sawKeyExchange))
	if errors.Is(err, errPassthrough) {
		s.relayWhole(c)
		return
	}
	if err != nil {
		answerPlainHTTP(err)
		s.handshakeFailed(c, t.ConnectionState(), err)
		return
	}
	c.turn.end()
	if c.challenge { // the authority has seen what it wants
		t.Close()
		return
	}
	state := t.ConnectionState()
	s.handshakeSucceeded(c, state)
	c.finishHandshake()
	if c.host.Mode == config.ModeTCP {
		s.relayTLS(c, t, state)
		return
	}
	s.serveHTTP(c, t, state.NegotiatedProtocol)
}

func (s *Server) handshakeDone(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.books.handshaking--
	if c.sourced {
		s.books.leaveSource(c.source, 0, 1)
	}
	s.noteProgress()
}

func (s *Server) handshakeSucceeded(c *conn, state tls.ConnectionState) {
	s.observer.ObserveHandshake(HandshakeEvent{Outcome: HandshakeDone, Version: state.Version, Group: state.CurveID, Resumed: state.DidResume, Duration: time.Since(c.accepted)})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Handshakes[state.CurveID]++
}

// handshakeFailed logs why, and closes the connection.
func (s *Server) handshakeFailed(c *conn, state tls.ConnectionState, err error) {
	c.Close()
	var full *shedError
	if errors.As(err, &full) {
		s.noteShed(c, full.over)
		return
	}
	f := failure{err: err, conn: c, state: state, timeout: time.Duration(c.live.timeouts.Handshake)}
	if f.silent() {
		s.log.Debug("connection closed before its ClientHello", "remote", c.RemoteAddr().String())
		return
	}
	s.mu.Lock()
	s.stats.Failed++
	s.mu.Unlock()
	if c.hello.Load() == nil && s.isDraining() {
		return // closed by us
	}
	s.observer.ObserveHandshake(f.event())
	f.trace(s.tracer)
	s.limiters.handshakes.Log(f.level(), "TLS handshake failed", f.attrs)
}

// answerPlainHTTP tells a client that speaks HTTP without TLS what is wrong.
func answerPlainHTTP(err error) {
	var record tls.RecordHeaderError
	if errors.As(err, &record) && record.Conn != nil && looksLikeHTTP(record.RecordHeader) {
		io.WriteString(record.Conn, "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nThis port speaks HTTPS; the request came without TLS.\n")
	}
}

// looksLikeHTTP knows the first five bytes of HTTP/1's common methods and of
// HTTP/2's preface.
func looksLikeHTTP(header [5]byte) bool {
	switch string(header[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO", "TRACE", "CONNE", "PRI *":
		return true
	}
	return false
}

// failure describes a handshake that failed.
type failure struct {
	err     error
	conn    *conn
	state   tls.ConnectionState
	timeout time.Duration
}

// Bounds of what a client can put into a line.
const (
	maxLoggedReason  = 256 // bytes; some of crypto/tls's messages quote the client
	maxLoggedEntries = 24  // of a list
)

// silent reports whether the client went away without a word, as health checks
// of load balancers do.
func (f failure) silent() bool {
	return !f.conn.received.Load() && f.closedByClient()
}

func (f failure) closedByClient() bool {
	return errors.Is(f.err, io.EOF) || errors.Is(f.err, io.ErrUnexpectedEOF) || errors.Is(f.err, syscall.ECONNRESET) || errors.Is(f.err, syscall.EPIPE)
}

// level is Error for what is our fault: the key exchange or a certificate's key
// does not work. crypto/tls's own alert internal_error says less, as it sends
// that for some of a client's faults too.
func (f failure) level() slog.Level {
	if f.conn.atFault.Load() || strings.HasPrefix(f.err.Error(), "tls: failed to sign ") {
		return slog.LevelError
	}
	return slog.LevelInfo
}

func (f failure) attrs() []slog.Attr {
	attrs := []slog.Attr{
		slog.String("remote", f.conn.RemoteAddr().String()),
		slog.String("reason", logging.Peer(f.reason(), maxLoggedReason)),
	}
	if f.conn.front != nil {
		attrs = append(attrs, slog.String("via", f.conn.via().String()))
	}
	if sent := f.conn.alertSent.Load(); sent > 0 {
		attrs = append(attrs, slog.String("alert_sent", alertName(uint8(sent-1))))
	}
	if received, ok := f.alertReceived(); ok {
		attrs = append(attrs, slog.String("alert_received", received))
	}
	if f.state.Version != 0 {
		attrs = append(attrs, slog.String("version", tls.VersionName(f.state.Version)))
	}
	if f.state.CurveID != 0 {
		attrs = append(attrs, slog.String("group", groups.Name(f.state.CurveID)))
	}
	if hello := f.conn.hello.Load(); hello != nil {
		attrs = append(attrs, offered(hello)...)
	}
	return attrs
}

// event describes the failure for the Server's Observer.
func (f failure) event() HandshakeEvent {
	e := HandshakeEvent{Outcome: HandshakeRefused, Version: f.state.Version, Group: f.state.CurveID, Resumed: f.state.DidResume, Duration: time.Since(f.conn.accepted)}
	switch {
	case f.level() == slog.LevelError:
		e.Outcome = HandshakeInternal
	case errors.Is(f.err, context.DeadlineExceeded):
		e.Outcome = HandshakeTimeout
	case errors.Is(f.err, context.Canceled), f.closedByClient():
		e.Outcome = HandshakeAborted
	}
	if sent := f.conn.alertSent.Load(); sent > 0 {
		e.AlertSent = alertName(uint8(sent - 1))
	}
	e.AlertReceived, _ = f.alertReceived()
	return e
}

// offered is what the ClientHello asked for.
func offered(hello *tls.ClientHelloInfo) []slog.Attr {
	return []slog.Attr{
		slog.String("sni", logging.Peer(hello.ServerName, accesslog.MaxName)),
		slog.Any("offered_groups", list(hello.SupportedCurves, groups.Name)),
		slog.Any("offered_versions", list(hello.SupportedVersions, tls.VersionName)),
		slog.Any("offered_alpn", list(hello.SupportedProtos, func(p string) string { return logging.Peer(p, accesslog.MaxName) })),
	}
}

// list names the first entries of a list and counts the others.
func list[T any](entries []T, name func(T) string) []string {
	var names []string
	for _, e := range entries[:min(len(entries), maxLoggedEntries)] {
		names = append(names, name(e))
	}
	if more := len(entries) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return names
}

// reason says in words why a handshake failed, and how far it had got.
func (f failure) reason() string {
	var record tls.RecordHeaderError
	switch {
	case errors.Is(f.err, context.DeadlineExceeded):
		return fmt.Sprintf("timed out after %v, %s", f.timeout, f.stage())
	case errors.Is(f.err, context.Canceled):
		return "cut off by the end of the drain, " + f.stage()
	case f.closedByClient():
		return "the client closed the connection, " + f.stage()
	case errors.As(f.err, &record) && looksLikeHTTP(record.RecordHeader):
		return "the client sent an HTTP request without TLS"
	}
	return strings.TrimPrefix(strings.TrimPrefix(f.err.Error(), "remote error: "), "tls: ")
}

func (f failure) stage() string {
	switch {
	case f.conn.hello.Load() != nil:
		return "after its ClientHello"
	case f.conn.received.Load():
		return "within its ClientHello"
	}
	return "before its ClientHello"
}

// alertReceived names the alert with which the client ended the handshake.
func (f failure) alertReceived() (string, bool) {
	var op *net.OpError
	if errors.As(f.err, &op) && op.Op == "remote error" {
		return strings.TrimPrefix(op.Err.Error(), "tls: "), true
	}
	return "", false
}

func alertName(alert uint8) string {
	return strings.TrimPrefix(tls.AlertError(alert).Error(), "tls: ")
}
