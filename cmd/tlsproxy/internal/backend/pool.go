package backend

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync/atomic"
	"time"
)

// maxAttempts bounds how many backends one request tries.
const maxAttempts = 3

// Options configure a Pool. Every field but CA, Dial and Logger is required;
// a ResponseTimeout of 0 means none.
type Options struct {
	URLs               []*url.URL     // at least one; http or https
	CA                 *x509.CertPool // verifies https backends; nil: the system's
	EjectAfter         int            // failures in a row
	EjectFor           time.Duration  // the first ejection; it doubles while the backend stays dead
	MaxIdleConnections int            // kept for reuse, for each backend; 0: none
	ConnectTimeout     time.Duration  // TLS included
	ResponseTimeout    time.Duration  // from the request's last byte to the answer's header
	IdleTimeout        time.Duration  // how long an idle connection is kept
	MaxHeaderBytes     int64          // of an answer
	Logger             *slog.Logger   // nil: slog.Default()

	// Dial replaces net.Dialer.DialContext in tests.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Pool is an http.RoundTripper over backends of equal rank.
type Pool struct {
	backends  []*backend
	next      atomic.Uint64
	transport *http.Transport
}

// New returns a Pool. Close it.
func New(o Options) (*Pool, error) {
	if len(o.URLs) == 0 {
		return nil, errors.New("backend: a pool without backends")
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	p := &Pool{transport: newTransport(o)}
	for _, u := range o.URLs {
		p.backends = append(p.backends, &backend{url: u, log: o.Logger, ejectAfter: o.EjectAfter, ejectFor: o.EjectFor})
	}
	return p, nil
}

// newTransport speaks HTTP/1.1 and adds nothing of its own to a message. It
// takes no proxy from the environment: backends are named, not found.
func newTransport(o Options) *http.Transport {
	t := &http.Transport{
		DialContext:            dialer(o),
		DialTLSContext:         tlsDialer(o),
		DisableCompression:     true,
		DisableKeepAlives:      o.MaxIdleConnections == 0,
		MaxIdleConnsPerHost:    o.MaxIdleConnections,
		IdleConnTimeout:        o.IdleTimeout,
		ResponseHeaderTimeout:  o.ResponseTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: o.MaxHeaderBytes,
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	return t
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dialer connects in bounded time and marks its errors: of a request that met
// one nothing was sent.
func dialer(o Options) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
		defer cancel()
		conn, err := o.Dial(ctx, network, address)
		if err != nil {
			return nil, &ConnectError{err}
		}
		return conn, nil
	}
}

// tlsDialer is dialer and a TLS handshake that verifies the backend.
func tlsDialer(o Options) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, &ConnectError{err}
		}
		ctx, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
		defer cancel()
		raw, err := o.Dial(ctx, network, address)
		if err != nil {
			return nil, &ConnectError{err}
		}
		conn := tls.Client(raw, &tls.Config{ServerName: host, RootCAs: o.CA, NextProtos: []string{"http/1.1"}})
		if err := conn.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, &ConnectError{err}
		}
		return conn, nil
	}
}

// ConnectError says that a backend could not be connected to.
type ConnectError struct{ Err error }

func (e *ConnectError) Error() string { return e.Err.Error() }
func (e *ConnectError) Unwrap() error { return e.Err }

// RequestBodyError says that the request's body could not be read, which is
// its sender's fault and not a backend's.
type RequestBodyError struct{ Err error }

func (e *RequestBodyError) Error() string { return "reading the request's body: " + e.Err.Error() }
func (e *RequestBodyError) Unwrap() error { return e.Err }

// RoundTrip sends a request to one of the backends, whose base path is put in
// front of the request's. The Host header stays as it is. Errors name the
// backend; they wrap *ConnectError, *RequestBodyError, the request's context's
// error, or whatever kept the answer from coming.
func (p *Pool) RoundTrip(r *http.Request) (*http.Response, error) {
	body := newRetryBody(r.Body)
	var tried []*backend
	for {
		b := p.pick(tried)
		tried = append(tried, b)
		response, err := p.transport.RoundTrip(b.outgoing(r, body))
		if err == nil {
			b.succeeded()
			body.settle()
			return response, nil
		}
		retry := b.blame(r.Context(), body, &err)
		if !retry || len(tried) == min(maxAttempts, len(p.backends)) {
			body.Close()
			body.settle()
			return nil, err
		}
	}
}

// outgoing is a shallow copy of r that goes to b.
func (b *backend) outgoing(r *http.Request, body *retryBody) *http.Request {
	out := r.WithContext(r.Context())
	address := *r.URL
	out.URL = &address
	if body != nil {
		out.Body = body
	}
	to := httputil.ProxyRequest{In: r, Out: out}
	to.SetURL(b.url)
	out.Host = r.Host
	return out
}

// blame finds out whose fault err is, counts it against the backend if it is
// the backend's, and reports whether another backend can be tried. It replaces
// err by one that says where it happened.
func (b *backend) blame(ctx context.Context, body *retryBody, err *error) (retry bool) {
	defer func() { *err = fmt.Errorf("backend %s: %w", b.url.Host, *err) }()
	if readErr := body.readError(); readErr != nil {
		b.undecided()
		*err = &RequestBodyError{readErr}
		return false
	}
	if ctx.Err() != nil {
		b.undecided()
		return false
	}
	b.failed(*err)
	var connect *ConnectError
	return errors.As(*err, &connect) && !body.touched()
}

// pick chooses the next backend that is not in tried: one that takes part, or
// where none does the next in turn.
func (p *Pool) pick(tried []*backend) *backend {
	now := time.Now()
	start := p.next.Add(1) - 1
	var fallback *backend
	for i := range uint64(len(p.backends)) {
		b := p.backends[(start+i)%uint64(len(p.backends))]
		if slices.Contains(tried, b) {
			continue
		}
		if b.admit(now) {
			return b
		}
		if fallback == nil {
			fallback = b
		}
	}
	return fallback // not nil: RoundTrip tries fewer than there are
}

// Close gives up the idle connections. Requests under way go on.
func (p *Pool) Close() { p.transport.CloseIdleConnections() }
