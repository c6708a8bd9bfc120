package proxy

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logging"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxyprotocol"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/routing"
	"github.com/ctrutls/ctrutls/internal/panics"
)

// handler answers requests from the backends.
type handler struct {
	server    *Server
	live      *setup
	proxy     *httputil.ReverseProxy
	forwarded bool // send Forwarded too

	clientCert bool // send Client-Cert
}

func newHandler(s *Server, live *setup, o Options) *handler {
	h := &handler{server: s, live: live, forwarded: o.Config.Headers.Forwarded, clientCert: o.Config.Headers.ClientCert}
	h.proxy = &httputil.ReverseProxy{
		Rewrite:        h.rewrite,
		Transport:      toPool{},
		ErrorLog:       log.New(withoutCopies{s.limiters.server}, "", 0),
		BufferPool:     copyBuffers,
		ModifyResponse: noteBackend,
		ErrorHandler:   h.failed,
	}
	return h
}

// bufferPool lends the buffers through which bodies are copied.
type bufferPool struct{ pool sync.Pool }

const copyBufferSize = 32 << 10

var copyBuffers = &bufferPool{sync.Pool{New: func() any { return new([copyBufferSize]byte) }}}

func (p *bufferPool) Get() []byte  { return p.pool.Get().(*[copyBufferSize]byte)[:] }
func (p *bufferPool) Put(b []byte) { p.pool.Put((*[copyBufferSize]byte)(b)) }

// ServeHTTP answers one request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := h.server
	over, ok := s.beginRequest()
	if !ok {
		panic(http.ErrAbortHandler) // the connection is being cut
	}
	defer s.endRequest()
	x := newExchange(s, h.live.timeouts, w, r)
	defer h.panicked(x, r)
	ctx, traced := x.begin(context.WithValue(r.Context(), exchangeKey{}, x), r)
	x.conn.underway.Add(1)
	defer x.conn.underway.Add(-1)
	if _, ok := r.Header["Upgrade"]; ok {
		ctx, x.cancel = context.WithCancel(ctx)
		defer x.cancel()
		defer context.AfterFunc(x.conn.context(), x.cancel)()
	}
	r = r.WithContext(ctx)
	if level, ok := s.accessLevel(); ok {
		defer func() { x.record(r).Log(s.log, level) }()
	}
	defer func() { traced(r) }()
	defer func() {
		event := RequestEvent{Protocol: r.Proto, Status: x.status, Duration: time.Since(x.start), Bytes: x.written}
		if x.trace.Recording() {
			event.TraceID = x.trace.ID()
		}
		s.observer.ObserveRequest(event)
	}()
	defer x.finish()
	defer h.brokenOff(x, r)
	defer x.closeSwitched()
	if over {
		x.Header().Set("Retry-After", "1")
		x.errorPage(http.StatusServiceUnavailable, "Too many requests are under way.")
		return
	}
	if len(r.RequestURI) > int(h.live.limits.URLBytes) {
		x.errorPage(http.StatusRequestURITooLong, "The request's path and query are too long.")
		return
	}
	if r.Method == http.MethodConnect {
		x.errorPage(http.StatusNotImplemented, "This is a reverse proxy: it opens no tunnels.")
		return
	}
	if r.Host == "" || !httpguts.ValidHostHeader(r.Host) {
		// A backend would take its own address for the host that was asked for: of what
		// cannot be one, as HTTP/2 lets it come, net/http passes on nothing.
		x.errorPage(http.StatusBadRequest, "The request names no host.")
		return
	}
	if strings.Contains(r.RequestURI, " ") {
		// HTTP/2 can carry it; a request line of HTTP/1.1 would have another part.
		x.errorPage(http.StatusBadRequest, "The request's path and query hold a space.")
		return
	}
	host := h.live.hostFor(x.conn, r.Host)
	if host == nil {
		// RFC 9110, section 15.5.20.
		x.Header().Set("Connection", "close")
		x.errorPage(http.StatusMisdirectedRequest, "This connection is for another host.")
		return
	}
	x.route, x.pool = host.Route(r.URL.Path)
	dropUpgrade(r.Header, x.body != nil || !r.ProtoAtLeast(1, 1))
	if x.body != nil {
		r.Body = x.body
	}
	h.proxy.ServeHTTP(x, r)
}

// hostFor returns the host for a request, nil if it is another than that of its
// connection: what was agreed in the handshake, the client's certificate for one,
// holds for that one only, and as long as the policy demands the same.
func (live *setup) hostFor(c *conn, name string) *routing.Host {
	host := live.hosts.Find(c.sni)
	if host == nil || host.Mode != config.ModeHTTP || live.hosts.Find(name) != host || live.policies.of(host).identity != c.policy {
		return nil
	}
	return host
}

// toPool sends a request to the pool that was found for its exchange.
type toPool struct{}

func (toPool) RoundTrip(r *http.Request) (*http.Response, error) {
	x := exchangeOf(r.Context())
	if x.pool.Proxy() != proxyprotocol.None {
		r = r.WithContext(backend.WithClient(r.Context(), x.conn.backendClient(r.TLS)))
	}
	asked := time.Now()
	response, err := x.pool.RoundTrip(r)
	x.answered = time.Since(asked)
	if err == nil && response.StatusCode == http.StatusSwitchingProtocols {
		x.switched = response.Body
	}
	return response, err
}

// panicked logs a panic in place of net/http, which would print what was thrown
// and the arguments on the stack. Deferred.
func (h *handler) panicked(x *exchange, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p != http.ErrAbortHandler {
		h.server.log.Error("panic in a request", "remote", r.RemoteAddr, "panic", panics.Text(p), "place", panics.Place())
	}
	x.breakOff()
	panic(http.ErrAbortHandler)
}

// withoutPanics is a destination of net/http's log that takes the values and the
// stack off what it says of panics outside of handlers.
type withoutPanics struct{ io.Writer }

func (w withoutPanics) Write(line []byte) (int, error) {
	text := line
	const what = "panic serving"
	if before, _, found := strings.Cut(string(line), what); found {
		text = []byte(before + what + " a connection")
	}
	if _, err := w.Writer.Write(text); err != nil {
		return 0, err
	}
	return len(line), nil
}

// withoutCopies is a destination of httputil's log that leaves out what it says of answers that
// break off: brokenOff says of which request.
type withoutCopies struct{ io.Writer }

func (w withoutCopies) Write(line []byte) (int, error) {
	if strings.HasPrefix(string(line), "httputil: ReverseProxy read error during body copy") {
		return len(line), nil
	}
	return w.Writer.Write(line)
}

// brokenOff tells of an answer that its backend did not bring to its end. Deferred.
func (h *handler) brokenOff(x *exchange, r *http.Request) {
	if x.broken == nil || errors.Is(x.broken, context.Canceled) || r.Context().Err() != nil {
		return // or whose client has gone
	}
	h.server.limiters.backends.Log(slog.LevelWarn, "an answer broke off", func() []slog.Attr {
		return append(x.record(r).Identify(), slog.String("backend", logging.Peer(x.backend, 512)), slog.Int64("bytes", x.written), slog.String("err", logging.Peer(x.broken.Error(), 512)))
	})
}

// dropUpgrade makes a request that asks to switch to another kind of HTTP or
// to TLS a plain one, as RFC 9110, section 7.8, allows. A client could
// otherwise, on a connection switched to h2c, send the backend requests whose
// headers the proxy never sees. So it does with one that may not switch at all: of HTTP/1.0,
// of which that section demands it, and one that has a body. A backend that switches before it
// has all of that would have two read from the client at once, the body and what comes behind
// the switch.
func dropUpgrade(h http.Header, plain bool) {
	if plain {
		h.Del("Upgrade")
	}
	for _, protocol := range strings.Split(strings.Join(h["Upgrade"], ","), ",") {
		name, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(protocol)), "/")
		if name == "h2c" || name == "h2" || name == "http" || name == "tls" {
			h.Del("Upgrade")
			h.Del("Http2-Settings")
			return
		}
	}
}

// rewrite makes the request that goes to a backend. The Host header and the
// query stay exactly as the client sent them, which is safe as nothing here
// depends on them.
func (h *handler) rewrite(r *httputil.ProxyRequest) {
	r.Out.Host = r.In.Host
	r.Out.URL.RawQuery = r.In.URL.RawQuery
	r.Out.Trailer = r.In.Trailer // filled in while the body is read
	dropVouched(r.Out.Trailer)   // what is announced; there can be more by the body's end
	dropVouched(r.Out.Header)
	r.SetXForwarded()
	if client := r.Out.Header.Get("X-Forwarded-For"); client != "" {
		r.Out.Header.Set("X-Real-Ip", client)
	}
	if h.clientCert && len(r.In.TLS.PeerCertificates) > 0 {
		r.Out.Header.Set("Client-Cert", clientCert(r.In.TLS.PeerCertificates[0]))
	}
	if h.forwarded {
		r.Out.Header.Set("Forwarded", forwarded(r.In))
	}
	// RFC 9110, section 7.6.3.
	r.Out.Header.Add("Via", strings.TrimPrefix(r.In.Proto, "HTTP/")+" tlsproxy")
}

// vouched are the headers in which backends are told of clients by the proxy alone.
var vouched = map[string]bool{"Client-Cert": true, "Client-Cert-Chain": true, "Forwarded": true,
	"X-Forwarded-For": true, "X-Forwarded-Host": true, "X-Forwarded-Proto": true, "X-Real-Ip": true}

// lookalikes are the signs of a header's name (RFC 9110, section 5.6.2) that many
// backends cannot tell from a hyphen: whatever is no letter and no digit becomes an
// underscore in the variables of CGI.
const lookalikes = "_.!#$%&'*+^`|~"

// dropVouched removes what a client sends in these headers, and in others that such
// backends cannot tell from them. It does so for trailers too, which some backends
// merge into the header (RFC 9110, section 6.5.1).
func dropVouched(h http.Header) {
	for name := range h {
		if vouched[name] || strings.ContainsAny(name, lookalikes) && vouched[http.CanonicalHeaderKey(hyphened(name))] {
			delete(h, name)
		}
	}
}

// hyphened is a header's name as such backends have it.
func hyphened(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(lookalikes, r) {
			return '-'
		}
		return r
	}, name)
}

// noteBackend remembers for the log who answered, and why the answer ended.
func noteBackend(response *http.Response) error {
	if x := exchangeOf(response.Request.Context()); x != nil {
		x.backend = response.Request.URL.Host
		if response.StatusCode != http.StatusSwitchingProtocols {
			response.Body = answerBody{response.Body, x}
		}
	}
	return nil
}

// failed answers a request that got no answer from a backend.
func (h *handler) failed(_ http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r.Context())
	status, text := diagnose(err)
	var unavailable *backend.UnavailableError
	switch {
	case x.hijacked:
		panic(http.ErrAbortHandler)
	case x.body != nil && x.body.timedOut():
		// net/http takes a deadline on the connection for its end, and so ends
		// the request as if the client had gone.
		status, text = http.StatusRequestTimeout, "The rest of the request did not arrive in time."
	case r.Context().Err() != nil:
		// The client is gone, or cut off: whatever is written now would read
		// as an answer that it is not.
		panic(http.ErrAbortHandler)
	case errors.As(err, &unavailable):
		x.Header().Set("Retry-After", seconds(unavailable.RetryAfter))
	}
	if status >= http.StatusInternalServerError {
		h.server.limiters.backends.Log(slog.LevelWarn, "no answer from a backend", func() []slog.Attr {
			return append(x.record(r).Identify(), slog.Int("status", status), slog.String("err", logging.Peer(err.Error(), 512)))
		})
	}
	if status < http.StatusInternalServerError {
		x.Header().Set("Connection", "close") // what is left of the request cannot be read
	}
	x.errorPage(status, text)
}

// diagnose finds the status for an error of the round trip and what to tell
// the client.
func diagnose(err error) (status int, text string) {
	var timeout net.Error
	var body *backend.RequestBodyError
	var request *backend.RequestError
	var unavailable *backend.UnavailableError
	if errors.As(err, &body) {
		return http.StatusBadRequest, "The request's body could not be read."
	}
	if errors.As(err, &request) {
		return http.StatusBadRequest, "The request is not valid HTTP."
	}
	if errors.As(err, &unavailable) {
		return http.StatusServiceUnavailable, "No backend can be reached at the moment."
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return http.StatusGatewayTimeout, "The backend did not answer in time."
	}
	return http.StatusBadGateway, "The backend could not be reached or broke off."
}

// seconds writes a duration as Retry-After wants it.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
