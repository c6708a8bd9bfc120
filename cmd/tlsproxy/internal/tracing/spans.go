package tracing

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/accesslog"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logging"
)

// The names of spans that are not a request's.
const (
	HandshakeSpan   = "TLS handshake"
	KeyExchangeSpan = "key exchange"
	QueueSpan       = "key exchange: queue"
	BatchSpan       = "key exchange: batch"
	SignatureSpan   = "signature"
	SignQueueSpan   = "signature: queue"
	SignBatchSpan   = "signature: batch"
	ConnectionSpan  = "connection"
	ConnectSpan     = "connect"
)

// Attributes that OpenTelemetry has no name for.
const (
	poolKey          = attribute.Key("tlsproxy.pool")
	backendKey       = attribute.Key("tlsproxy.backend")
	connectionKey    = attribute.Key("tlsproxy.connection") // its number, as in the access log
	sniKey           = attribute.Key("tlsproxy.sni")        // that the client asked for
	modeKey          = attribute.Key("tlsproxy.mode")
	outcomeKey       = attribute.Key("tlsproxy.handshake.outcome")
	alertSentKey     = attribute.Key("tlsproxy.handshake.alert_sent")
	alertReceivedKey = attribute.Key("tlsproxy.handshake.alert_received")
	sentKey          = attribute.Key("tlsproxy.sent_bytes")
	receivedKey      = attribute.Key("tlsproxy.received_bytes")
)

// Handshake is what a connection's handshake came to, and when.
type Handshake struct {
	Client accesslog.Client
	Began  time.Time // when the connection was accepted
	Ended  time.Time
	// KeyExchange is when the key exchange with a group of ours began, for
	// KeyExchanged long; the latter is 0 if there was none.
	KeyExchange  time.Time
	KeyExchanged time.Duration
	// Signature and Signed are the same of a signature that a GPU may make.
	Signature time.Time
	Signed    time.Duration
}

// Request is the trace of a request. Its methods can be called on nil, which traces
// nothing.
type Request struct {
	tracer *Tracer
	ctx    context.Context
	span   trace.Span
	method string // of the request, if it is known
}

// Request begins the trace of a request that has just come, or its part of its
// client's trace.
func (t *Tracer) Request(r *http.Request) *Request {
	if t == nil {
		return nil
	}
	known := method(r.Method)
	ctx, span := t.tracer.Start(t.parent(r), known, trace.WithSpanKind(trace.SpanKindServer))
	return &Request{t, ctx, span, known}
}

// Recording reports whether the request is sampled, so that End is to be called.
func (q *Request) Recording() bool { return q != nil && q.span.IsRecording() }

// ID is the trace's, in hexadecimal; "" for nil.
func (q *Request) ID() string {
	if q == nil {
		return ""
	}
	return q.span.SpanContext().TraceID().String()
}

// Try begins a try at a backend, which is told of it in the header, in place of what
// the client said. What it returns ends the try, with the status of the answer or with
// the error. It implements backend.Tracer.
func (q *Request) Try(backend string, retries int, header http.Header) (ended func(status int, err error)) {
	ctx, span := q.tracer.tracer.Start(q.ctx, q.method, trace.WithSpanKind(trace.SpanKindClient))
	header.Del("Traceparent")
	header.Del("Tracestate")
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(header))
	if !span.IsRecording() {
		return func(int, error) {}
	}
	span.SetAttributes(backendKey.String(backend))
	span.SetAttributes(address(backend)...)
	if retries > 0 {
		span.SetAttributes(semconv.HTTPRequestResendCount(retries))
	}
	return func(status int, err error) {
		switch {
		case err != nil:
			fail(span, "no answer", err.Error())
		default:
			setStatus(span, status)
		}
		span.End()
	}
}

// End ends a request that is Recording as the access log tells it. The handshake of
// its connection is a part of the trace of the first request over it; nil: this is
// another.
func (q *Request) End(r *accesslog.Request, first *Handshake) {
	known, s := q.method, q.span
	if r.Route != "" {
		s.SetName(known + " " + r.Route)
		s.SetAttributes(semconv.HTTPRoute(r.Route))
	}
	if known == otherMethod {
		s.SetAttributes(semconv.HTTPRequestMethodOriginal(logging.Peer(r.Method, maxMethod)))
		known = "_OTHER"
	}
	s.SetAttributes(
		semconv.HTTPRequestMethodKey.String(known),
		semconv.URLScheme("https"),
		semconv.URLPath(logging.Peer(r.Path, maxPath)),
		semconv.ServerAddress(logging.Peer(r.Host, accesslog.MaxName)),
		semconv.NetworkProtocolName("http"),
		semconv.NetworkProtocolVersion(protocolVersion(r.Proto)),
		semconv.HTTPRequestBodySize(int(r.Received)),
		semconv.HTTPResponseBodySize(int(r.Sent)),
	)
	s.SetAttributes(client(&r.Client)...)
	setText(s, poolKey, r.Pool)
	setText(s, backendKey, r.Backend)
	if r.Status == 0 {
		fail(s, "aborted", "the client left, or was cut off, before an answer was begun")
	} else {
		setStatus(s, r.Status)
	}
	if first != nil {
		_, span := q.tracer.tracer.Start(q.ctx, HandshakeSpan, trace.WithTimestamp(first.Began))
		q.tracer.handshake(span, first)
		span.End(trace.WithTimestamp(first.Ended))
	}
	s.End()
}

const (
	maxMethod = 32
	maxPath   = 1024
)

// otherMethod stands for methods that are not known, of which clients can make up
// any number.
const otherMethod = "HTTP"

func method(name string) string {
	switch name {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return name
	}
	return otherMethod
}

// protocolVersion is OpenTelemetry's name for "HTTP/1.1" or "HTTP/2.0".
func protocolVersion(proto string) string {
	if proto == "HTTP/2.0" {
		return "2"
	}
	return strings.TrimPrefix(proto, "HTTP/")
}

// handshake fills the span of a handshake, and makes those of its parts.
func (t *Tracer) handshake(span trace.Span, h *Handshake) {
	span.SetAttributes(client(&h.Client)...)
	ctx := trace.ContextWithSpan(context.Background(), span)
	t.inBatches(ctx, KeyExchangeSpan, h.KeyExchange, h.KeyExchanged, part{QueueSpan, h.Client.Queue}, part{BatchSpan, h.Client.Batch})
	t.inBatches(ctx, SignatureSpan, h.Signature, h.Signed, part{SignQueueSpan, h.Client.SignQueue}, part{SignBatchSpan, h.Client.SignBatch})
}

// part is one of the first things that something consists of.
type part struct {
	name string
	took time.Duration
}

// inBatches makes the span of what began then, unless it took no time, and within it
// those of its parts, one after the other.
func (t *Tracer) inBatches(ctx context.Context, name string, began time.Time, took time.Duration, parts ...part) {
	if took == 0 {
		return
	}
	inner, whole := t.tracer.Start(ctx, name, trace.WithTimestamp(began))
	at := began
	for _, p := range parts {
		if p.took > 0 {
			_, s := t.tracer.Start(inner, p.name, trace.WithTimestamp(at))
			at = at.Add(p.took)
			s.End(trace.WithTimestamp(at))
		}
	}
	whole.End(trace.WithTimestamp(began.Add(took)))
}

// Failure says why a handshake failed, as metrics and log do.
type Failure struct {
	Outcome                  string
	Reason                   string // fit for a log
	AlertSent, AlertReceived string
}

// FailedHandshake is the trace of a handshake that failed, of a connection that was
// accepted then. describe is called if the trace is sampled.
func (t *Tracer) FailedHandshake(accepted time.Time, describe func() (*Handshake, *Failure)) {
	if t == nil {
		return
	}
	_, span := t.tracer.Start(context.Background(), HandshakeSpan, trace.WithTimestamp(accepted), trace.WithSpanKind(trace.SpanKindServer))
	if !span.IsRecording() {
		return
	}
	h, f := describe()
	t.handshake(span, h)
	span.SetAttributes(outcomeKey.String(f.Outcome))
	setText(span, alertSentKey, f.AlertSent)
	setText(span, alertReceivedKey, f.AlertReceived)
	fail(span, f.Outcome, f.Reason)
	span.End(trace.WithTimestamp(h.Ended))
}

// Connection is the trace of a connection that was accepted and then, from began on,
// relayed to a backend, or that no backend took because of err. describe is called if
// the trace is sampled; its Handshake is nil where TLS was passed through.
func (t *Tracer) Connection(accepted, began time.Time, describe func() (*accesslog.Connection, *Handshake), err error) {
	if t == nil {
		return
	}
	ctx, span := t.tracer.Start(context.Background(), ConnectionSpan, trace.WithTimestamp(accepted), trace.WithSpanKind(trace.SpanKindServer))
	if !span.IsRecording() {
		return
	}
	defer span.End()
	r, h := describe()
	if h != nil {
		_, shake := t.tracer.Start(ctx, HandshakeSpan, trace.WithTimestamp(h.Began))
		t.handshake(shake, h)
		shake.End(trace.WithTimestamp(h.Ended))
	}
	span.SetAttributes(client(&r.Client)...)
	span.SetAttributes(modeKey.String(r.Mode), poolKey.String(r.Pool), sentKey.Int64(r.Sent), receivedKey.Int64(r.Received))
	setText(span, backendKey, r.Backend)
	_, connect := t.tracer.Start(ctx, ConnectSpan, trace.WithTimestamp(began), trace.WithSpanKind(trace.SpanKindClient))
	setText(connect, backendKey, r.Backend)
	if err != nil {
		fail(connect, "no connection", err.Error())
		fail(span, "no backend", "no backend took the connection")
	}
	connect.End(trace.WithTimestamp(began.Add(r.Connected)))
}

// client is what spans say of a client's connection.
func client(c *accesslog.Client) []attribute.KeyValue {
	attrs := []attribute.KeyValue{connectionKey.Int64(int64(c.Connection))}
	if host, port, err := net.SplitHostPort(c.Remote); err == nil {
		attrs = append(attrs, semconv.ClientAddress(host))
		if n, err := strconv.Atoi(port); err == nil {
			attrs = append(attrs, semconv.ClientPort(n))
		}
	}
	if c.SNI != "" {
		attrs = append(attrs, sniKey.String(logging.Peer(c.SNI, accesslog.MaxName)))
	}
	if c.TLS == nil || c.TLS.Version == 0 {
		return attrs
	}
	return append(attrs,
		semconv.TLSProtocolNameTLS,
		semconv.TLSProtocolVersion(strings.TrimPrefix(tls.VersionName(c.TLS.Version), "TLS ")),
		semconv.TLSCipher(tls.CipherSuiteName(c.TLS.CipherSuite)),
		semconv.TLSCurve(groups.Label(c.TLS.CurveID)),
		semconv.TLSResumed(c.TLS.DidResume),
	)
}

// address is where a backend is, if its name says.
func address(backend string) []attribute.KeyValue {
	host, port, err := net.SplitHostPort(backend)
	if err != nil {
		return nil
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return nil
	}
	return []attribute.KeyValue{semconv.ServerAddress(host), semconv.ServerPort(n)}
}

func setText(s trace.Span, key attribute.Key, text string) {
	if text != "" {
		s.SetAttributes(key.String(text))
	}
}

// setStatus notes an answer's status, which is an error from 500 on: what a client
// does wrong is not one of the server's (the conventions for HTTP spans).
func setStatus(s trace.Span, status int) {
	s.SetAttributes(semconv.HTTPResponseStatusCode(status))
	if status >= http.StatusInternalServerError {
		fail(s, strconv.Itoa(status), "")
	}
}

// fail makes a span one of an error. The text can hold what a peer chose.
func fail(s trace.Span, kind, text string) {
	s.SetAttributes(semconv.ErrorTypeKey.String(kind))
	s.SetStatus(codes.Error, logging.Peer(text, maxText/4))
}
