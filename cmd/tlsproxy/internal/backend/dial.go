package backend

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxyprotocol"
)

// Protocol is the HTTP that a Pool speaks.
type Protocol int

const (
	HTTP1 Protocol = iota
	HTTP2          // over TLS
	H2C            // HTTP/2 without TLS
	Auto           // over TLS what ALPN gives, else HTTP/1.1
)

// ALPN's names.
const (
	alpnHTTP1 = "http/1.1"
	alpnHTTP2 = "h2"
)

// classicalFor is how long a backend that answered only a classical ClientHello
// is sent no other.
const classicalFor = 10 * time.Minute

// ConnectError says that a backend could not be connected to.
type ConnectError struct {
	Err       error
	Handshake bool // TCP worked, TLS did not
}

func (e *ConnectError) Error() string { return e.Err.Error() }
func (e *ConnectError) Unwrap() error { return e.Err }

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dialer connects to one backend in bounded time. Its errors are
// *ConnectErrors: of a request that met one nothing was sent.
type dialer struct {
	backend      *backend
	dial         dialFunc
	tls          *tls.Config
	classical    []tls.CurveID // for the second try; none: there is none
	proxy        proxyprotocol.Version
	timeout      time.Duration
	writeTimeout time.Duration
	onlyUntil    atomic.Int64 // until then, in Unix nanoseconds, classical groups only
}

func newDialer(o *Options, b *backend) *dialer {
	d := &dialer{backend: b, dial: o.Dial, proxy: o.Proxy, timeout: o.ConnectTimeout, writeTimeout: o.WriteTimeout, classical: o.ClassicalRetry, tls: new(tls.Config)}
	if o.TLS != nil {
		d.tls = o.TLS.Clone()
	}
	if d.tls.ServerName == "" {
		d.tls.ServerName = b.url.Hostname()
	}
	d.tls.ClientSessionCache = tls.NewLRUClientSessionCache(2) // one, and one that replaces it
	return d
}

// open connects, and tells the backend of the client that it is for. ctx ends in
// bounded time.
func (d *dialer) open(ctx context.Context) (net.Conn, error) {
	raw, err := d.dial(ctx, d.backend.network, d.backend.address)
	if err != nil || d.proxy == proxyprotocol.None {
		return raw, err
	}
	if err := d.introduce(ctx, raw); err != nil {
		raw.Close()
		return nil, err
	}
	return raw, nil
}

// introduce sends the header.
func (d *dialer) introduce(ctx context.Context, raw net.Conn) error {
	header := proxyprotocol.Local(d.proxy)
	if client := clientOf(ctx); client != nil {
		var err error
		if header, err = client.header(d.proxy); err != nil {
			return err
		}
	}
	deadline, _ := ctx.Deadline()
	raw.SetWriteDeadline(deadline)
	if _, err := raw.Write(header); err != nil {
		return fmt.Errorf("sending the PROXY header: %w", err)
	}
	return raw.SetWriteDeadline(time.Time{})
}

// kept is the end of dialling for a transport: a connection that tells of a
// client is that one's.
func (d *dialer) kept(ctx context.Context, c net.Conn, err error) (net.Conn, error) {
	client := clientOf(ctx)
	if err != nil || d.proxy == proxyprotocol.None || client == nil {
		return c, err
	}
	of, ok := c.(*conn)
	if !ok {
		of = c.(*tls.Conn).NetConn().(*conn)
	}
	if !client.adopt(of, c) {
		c.Close()
		return nil, &ConnectError{Err: errClientGone}
	}
	return c, nil
}

var errClientGone = errors.New("the client has gone")

// plain makes a connection without TLS.
func (d *dialer) plain(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	raw, err := d.open(ctx)
	if err != nil {
		return nil, &ConnectError{Err: err}
	}
	return &conn{Conn: raw, writeTimeout: d.writeTimeout}, nil
}

// secure makes a connection over TLS that speaks one of protocols, which are
// ALPN's names; none: ALPN is not used. For h2 it is a *tls.Conn on a *conn, as
// net/http wants it, else a *conn on that.
func (d *dialer) secure(ctx context.Context, protocols ...string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	t, err := d.handshake(ctx, protocols)
	if err != nil {
		return nil, err
	}
	switch negotiated := t.ConnectionState().NegotiatedProtocol; {
	case negotiated == alpnHTTP2:
		t.NetConn().(*conn).writeTimeout = d.writeTimeout
		return t, nil
	case slices.Equal(protocols, []string{alpnHTTP2}):
		t.Close()
		return nil, &ConnectError{Err: errors.New("the backend does not speak h2"), Handshake: true}
	}
	return &conn{Conn: t, writeTimeout: d.writeTimeout}, nil
}

// handshake tries the classical groups by themselves where the others came to
// nothing, if it may.
func (d *dialer) handshake(ctx context.Context, protocols []string) (*tls.Conn, error) {
	c := d.tls.Clone()
	c.NextProtos = protocols
	if len(d.classical) == 0 {
		return d.attempt(ctx, c, nil)
	}
	if time.Now().UnixNano() < d.onlyUntil.Load() {
		c.CurvePreferences = d.classical
		return d.attempt(ctx, c, nil)
	}
	first, cancel := context.WithTimeout(ctx, d.timeout/2)
	defer cancel()
	var heard atomic.Bool
	t, err := d.attempt(first, c, &heard)
	if err == nil || heard.Load() || !unheard(err) || ctx.Err() != nil {
		return t, err
	}
	c.CurvePreferences = d.classical
	t, second := d.attempt(ctx, c, nil)
	if second != nil {
		return nil, err // what the groups that were asked for led to
	}
	d.onlyUntil.Store(time.Now().Add(classicalFor).UnixNano())
	d.backend.log.Warn("backend answers a classical ClientHello only", "backend", d.backend.name, "for", classicalFor, "err", err)
	return t, nil
}

// attempt connects and does a handshake; heard is set once the backend has sent
// something.
func (d *dialer) attempt(ctx context.Context, c *tls.Config, heard *atomic.Bool) (*tls.Conn, error) {
	raw, err := d.open(ctx)
	if err != nil {
		return nil, &ConnectError{Err: err}
	}
	t := tls.Client(&conn{Conn: raw, heard: heard}, c)
	if err := t.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, &ConnectError{Err: err, Handshake: true}
	}
	return t, nil
}

// unheard reports whether a handshake ended as if the ClientHello had been
// dropped on its way, or had been too much for the backend.
func unheard(err error) bool {
	var connect *ConnectError
	if !errors.As(err, &connect) || !connect.Handshake {
		return false
	}
	for _, sign := range []error{context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, sign) {
			return true
		}
	}
	return false
}

// newTransports makes what speaks the pool's protocol with a backend. They add
// nothing of their own to a message, and take no proxy from the environment:
// backends are named, not found.
func newTransports(o *Options, d *dialer, u *url.URL) (main, upgrades *http.Transport) {
	secure := u.Scheme == "https"
	switch {
	case !strings.HasPrefix(u.Scheme, "http"):
		return nil, nil
	case o.Protocol == HTTP2 || o.Protocol == H2C:
		main = newTransport(o, d, alpnHTTP2)
		main.Protocols.SetHTTP2(secure)
		main.Protocols.SetUnencryptedHTTP2(!secure)
		return main, nil
	case o.Protocol == Auto && secure:
		main = newTransport(o, d, alpnHTTP2, alpnHTTP1)
		main.Protocols.SetHTTP2(true)
		main.Protocols.SetHTTP1(true)
		upgrades = newTransport(o, d, alpnHTTP1)
		upgrades.Protocols.SetHTTP1(true)
		return main, upgrades
	}
	main = newTransport(o, d, alpnHTTP1)
	main.Protocols.SetHTTP1(true)
	return main, main
}

func newTransport(o *Options, d *dialer, alpn ...string) *http.Transport {
	most := 0 // of all clients; for each alone the same bound holds
	if o.Proxy != proxyprotocol.None {
		most = o.MaxIdleConnections
	}
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := d.plain(ctx)
			return d.kept(ctx, c, err)
		},
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := d.secure(ctx, alpn...)
			return d.kept(ctx, c, err)
		},
		DisableCompression:     true,
		DisableKeepAlives:      o.MaxIdleConnections == 0,
		MaxIdleConns:           most,
		MaxIdleConnsPerHost:    o.MaxIdleConnections,
		IdleConnTimeout:        o.IdleTimeout,
		ResponseHeaderTimeout:  o.ResponseTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: o.MaxHeaderBytes,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: o.ConnectTimeout},
		Protocols:              new(http.Protocols),
	}
}

// pingAfter is how long an HTTP/2 connection is silent before the backend is
// asked whether it is there.
const pingAfter = 30 * time.Second

// connect makes a connection for bytes that the proxy does not look at.
func (d *dialer) connect(ctx context.Context) (net.Conn, error) {
	switch d.backend.url.Scheme {
	case "tls", "https":
		return d.secure(ctx)
	}
	return d.plain(ctx)
}

// describe puts the backend's name in front of an error.
func (b *backend) describe(err error) error { return fmt.Errorf("backend %s: %w", b.name, err) }
