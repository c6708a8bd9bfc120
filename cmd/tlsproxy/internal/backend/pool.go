package backend

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxyprotocol"
	"github.com/ctrutls/ctrutls/internal/histogram"
)

// Options configure a Pool. Required are URLs, EjectAfter, EjectFor,
// ConnectTimeout and IdleTimeout; a WriteTimeout, ResponseTimeout or ReadTimeout
// of 0 means none.
type Options struct {
	Name               string                // in errors and in the log
	URLs               []*url.URL            // at least one; all of http, https and http+unix, or all of tcp, tls and unix
	Protocol           Protocol              // of http and https backends
	Balance            Balance               //
	Key                Key                   // of Hash
	TLS                *tls.Config           // towards https and tls backends; its ServerName "": the URL's host; nil: crypto/tls's defaults
	ClassicalRetry     []tls.CurveID         // groups for another ClientHello where the first got no answer; none: there is no other
	Proxy              proxyprotocol.Version // of the header that connections begin with
	Health             Health                //
	Retries            int                   // further backends that a request can go to
	EjectAfter         int                   // failures in a row
	EjectFor           time.Duration         // the first ejection; it doubles while the backend stays dead
	MaxIdleConnections int                   // kept for reuse, for each backend; 0: none
	ConnectTimeout     time.Duration         // TLS included
	WriteTimeout       time.Duration         // to take a piece of a request, 32 KiB at most
	ResponseTimeout    time.Duration         // from the request's last byte to the answer's header
	ReadTimeout        time.Duration         // how long a backend may pause in the middle of an answer
	IdleTimeout        time.Duration         // how long an idle connection is kept
	MaxHeaderBytes     int64                 // of an answer
	Resolve            time.Duration         // how often names are looked up; 0: for each connection
	Logger             *slog.Logger          // nil: slog.Default()

	// Dial and Lookup replace net.Dialer.DialContext and
	// net.Resolver.LookupNetIP in tests.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Pool sends requests, as an http.RoundTripper, or connections to backends of
// equal rank. Its methods may be called concurrently.
type Pool struct {
	options  Options
	balancer balancer
	budget   budget
	latency  histogram.Histogram
	ctx      context.Context // of lookups and health checks
	stop     context.CancelFunc
	working  sync.WaitGroup // those

	set atomic.Pointer[[]*backend] // never empty, never changed in place
}

// New returns a Pool and starts its lookups and health checks. Close it.
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
	if o.Lookup == nil {
		o.Lookup = net.DefaultResolver.LookupNetIP
	}
	p := &Pool{options: o, balancer: newBalancer(o.Balance)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	set := make([]*backend, len(o.URLs))
	for i, u := range o.URLs {
		set[i] = p.start(u, "")
	}
	p.set.Store(&set)
	if o.Resolve > 0 {
		p.working.Go(p.resolve)
	}
	return p, nil
}

// start makes a backend and begins to check it.
func (p *Pool) start(u *url.URL, address string) *backend {
	b := newBackend(&p.options, u, address)
	if p.options.Health.Check != NoCheck {
		ctx, stop := context.WithCancel(p.ctx)
		b.stop = stop
		p.working.Go(func() { b.watch(ctx, &p.options) })
	}
	return b
}

// Close ends lookups and health checks and gives up idle connections. Requests
// under way go on.
func (p *Pool) Close() {
	p.stop()
	p.working.Wait()
	for _, b := range *p.set.Load() {
		b.retire()
	}
}

// Proxy is the version of the header that tells backends of clients, which are
// then to be given by WithClient.
func (p *Pool) Proxy() proxyprotocol.Version { return p.options.Proxy }

// RequestBodyError says that the request's body could not be read, which is
// its sender's fault and not a backend's.
type RequestBodyError struct{ Err error }

func (e *RequestBodyError) Error() string { return "reading the request's body: " + e.Err.Error() }
func (e *RequestBodyError) Unwrap() error { return e.Err }

// RequestError says that the request cannot be sent to any backend as it is,
// which is its sender's fault.
type RequestError struct{ Err error }

func (e *RequestError) Error() string { return "sending the request: " + e.Err.Error() }
func (e *RequestError) Unwrap() error { return e.Err }

// UnavailableError says that no backend of a pool takes part or could be
// reached.
type UnavailableError struct {
	Err        error         // of the last that was tried; nil: health checks left none to try
	RetryAfter time.Duration // when that may have changed
	pool       string
}

func (e *UnavailableError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("pool %s: no backend passes its health check", e.pool)
	}
	return e.Err.Error()
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// unavailable makes an UnavailableError of what the last try led to.
func (p *Pool) unavailable(err error) error {
	after := p.options.EjectFor
	if err == nil {
		after = p.options.Health.Interval
	}
	return &UnavailableError{Err: err, RetryAfter: after, pool: p.options.Name}
}

// outcome is what an error means for its request.
type outcome int

const (
	final     outcome = iota // no other backend would help, or may be asked
	unsent                   // no backend has seen the request
	forgotten                // a backend may have seen it and broke off before it answered
)

// Name returns Options.Name.
func (p *Pool) Name() string { return p.options.Name }

// RoundTrip sends a request to one of the backends, whose base path is put in
// front of the request's. The Host header stays as it is. The answer's body has
// to be closed. Errors name the backend; they wrap *UnavailableError,
// *ConnectError, *RequestBodyError, *RequestError, the request's context's
// error, or whatever kept the answer from coming.
func (p *Pool) RoundTrip(r *http.Request) (*http.Response, error) {
	p.budget.earn()
	body := newRetryBody(r)
	defer body.settle()
	var key uint64
	if p.options.Balance == Hash {
		key = p.options.Key.of(r)
	}
	var tried []*backend
	var err error
	for {
		b := p.pick(key, tried)
		if b == nil {
			body.Close()
			return nil, p.conclude(err)
		}
		if tried = append(tried, b); len(tried) > 1 {
			b.retry()
		}
		var response *http.Response
		var what outcome
		out, ended := b.traced(r, len(tried)-1)
		response, what, err = p.try(b, out, body)
		if ended(response, err); err == nil {
			return response, nil
		}
		if len(tried) > p.options.Retries || !p.mayRepeat(r, body, what) {
			body.Close()
			return nil, p.conclude(err)
		}
	}
}

// conclude tells of backends that cannot be reached in one way.
func (p *Pool) conclude(err error) error {
	var connect *ConnectError
	if err == nil || errors.As(err, &connect) && !connect.Handshake {
		return p.unavailable(err)
	}
	return err
}

// mayRepeat reports whether a request may go to another backend.
func (p *Pool) mayRepeat(r *http.Request, body *retryBody, what outcome) bool {
	switch what {
	case unsent:
		return !body.touched()
	case forgotten:
		return body == nil && idempotent(r.Method) && p.budget.spend()
	}
	return false
}

// idempotent is RFC 9110, section 9.2.2.
func idempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// try sends a request to one backend.
func (p *Pool) try(b *backend, r *http.Request, body *retryBody) (*http.Response, outcome, error) {
	start := time.Now()
	try := newAttempt(b, r.Context(), &p.options)
	try.enter()
	out, transport := b.outgoing(r, body, try, p.options.WriteTimeout)
	response, err := transport.RoundTrip(out)
	if err == nil {
		err = try.check(response)
	}
	if err == nil {
		b.succeeded()
		p.latency.Add(uint64(time.Since(start)))
		if try.client != nil { // whose name is in out
			response.Request = b.named(out)
		}
		try.follow(response, p.options.ReadTimeout)
		return response, final, nil
	}
	try.leave()
	err = try.end(err)
	what, err := b.blame(r.Context(), body, try, err)
	return nil, what, b.describe(err)
}

// outgoing is a shallow copy of r that goes to b and is followed by try.
func (b *backend) outgoing(r *http.Request, body *retryBody, try *attempt, writeTimeout time.Duration) (*http.Request, *http.Transport) {
	out := r.WithContext(try.context())
	address := *r.URL
	out.URL = &address
	if body != nil {
		body.begin(try, writeTimeout)
		out.Body, out.GetBody = body, body.again
	}
	to := httputil.ProxyRequest{In: r, Out: out}
	to.SetURL(b.target)
	out.Host = r.Host
	if try.client != nil { // the dialer knows the way
		out.URL.Host = try.client.name
	}
	transport := b.main
	if _, ok := r.Header["Upgrade"]; ok {
		if b.upgrades == nil { // a server may go on as if nobody had asked
			out.Header = r.Header.Clone()
			out.Header.Del("Upgrade")
			out.Header.Del("Connection")
		} else {
			transport = b.upgrades
		}
	}
	return out, transport
}

// named is a shallow copy of a request that went to b, whose URL names b.
func (b *backend) named(out *http.Request) *http.Request {
	r := out.WithContext(out.Context())
	address := *out.URL
	address.Host = b.target.Host
	r.URL = &address
	return r
}

// blame finds out whose fault err is, counts it against the backend if it is
// the backend's, and says what it means. It goes by where the attempt ended:
// only connecting, and a connection that failed or stayed silent, tell something
// about the backend.
func (b *backend) blame(ctx context.Context, body *retryBody, try *attempt, err error) (outcome, error) {
	if readErr := body.readError(); readErr != nil {
		b.undecided()
		return final, &RequestBodyError{readErr}
	}
	if ctx.Err() != nil || errors.Is(err, errClientGone) {
		b.undecided()
		return final, err
	}
	var connect *ConnectError
	switch {
	case errors.As(err, &connect):
		b.failed(err)
		return unsent, err
	case try.refused():
		b.undecided()
		return final, &RequestError{err}
	case isProtocolError(err):
		b.undecided() // a client can cause it
		return final, err
	}
	b.failed(err)
	if timedOut(err) {
		return final, err // the client has waited long enough
	}
	return forgotten, err
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// pick chooses a backend that is not in tried: one that takes part, or where
// none does one that is ejected. It returns nil if there is none that passes its
// health check.
func (p *Pool) pick(key uint64, tried []*backend) *backend {
	set := *p.set.Load()
	now := time.Now()
	skip := tried
	var fallback *backend
	for {
		b := p.balancer.next(set, key, skip)
		if b == nil {
			return fallback
		}
		if b.admit(now) {
			return b
		}
		if fallback == nil && b.fit() {
			fallback = b
		}
		skip = append(skip[:len(skip):len(skip)], b)
	}
}

// Dial connects to one of the backends for a client at an address with a port,
// and speaks TLS with a tls backend. What goes through is not looked at. Errors
// are like RoundTrip's.
func (p *Pool) Dial(ctx context.Context, source string) (*Conn, error) {
	key := keyOfSource(source)
	var tried []*backend
	var err error
	for len(tried) <= p.options.Retries {
		b := p.pick(key, tried)
		if b == nil {
			break
		}
		if tried = append(tried, b); len(tried) > 1 {
			b.retry()
		}
		var c *Conn
		if c, err = b.connect(ctx); err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
	}
	return nil, p.conclude(err)
}

// connect is Dial for one backend.
func (b *backend) connect(ctx context.Context) (*Conn, error) {
	b.enter()
	c, err := b.dialer.connect(ctx)
	if err == nil {
		b.succeeded()
		c.(*conn).release()
		return &Conn{conn: c.(*conn), leave: sync.OnceFunc(b.leave), name: b.name}, nil
	}
	b.leave()
	if ctx.Err() != nil {
		b.undecided()
	} else {
		b.failed(err)
	}
	return nil, b.describe(err)
}

// Conn is a connection to a backend, which counts it until it is closed. It has
// no deadlines but those that its user sets.
type Conn struct {
	*conn
	leave func()
	name  string
}

// Backend names the backend for the log.
func (c *Conn) Backend() string { return c.name }

// Close ends both directions. It may be called more than once.
func (c *Conn) Close() error {
	c.leave()
	return c.conn.Close()
}

// budget bounds how many requests are sent again after a backend may have seen
// them: a fifth of all, and a few at the start. Otherwise a pool that breaks off
// under too much load would be given more.
type budget struct{ left atomic.Int64 }

// What a request earns is 1.
const (
	repeatPrice = 5
	budgetStart = 10 * repeatPrice
	budgetMost  = 100 * repeatPrice
)

func (b *budget) earn() {
	if b.left.Load() < budgetMost-budgetStart {
		b.left.Add(1)
	}
}

func (b *budget) spend() bool {
	if b.left.Add(-repeatPrice) >= -budgetStart {
		return true
	}
	b.left.Add(repeatPrice)
	return false
}
