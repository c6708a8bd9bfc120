package tracing

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/build"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logging"
)

// Options configure a Tracer. Required are Endpoint, Service and Queue.
type Options struct {
	Endpoint string            // a receiver's URL, http or https, with its path
	Roots    *x509.CertPool    // that vouch for it; nil: the system's
	Headers  map[string]string // sent to it
	Service  string            // the name of this proxy in traces
	Ratio    float64           // the share of traces that are sampled, 0 to 1
	// Trust are the networks of clients whose traces a request is made a part of, and
	// which decide whether it is sampled. None: each request begins a trace.
	Trust     []netip.Prefix
	TrustUnix bool         // trust those too that came over a Unix socket
	Queue     int          // spans that wait to be sent, at most; more are dropped
	Logger    *slog.Logger // nil: slog.Default()
}

// How spans are sent.
const (
	batchEvery    = 2 * time.Second
	batchSpans    = 512
	exportTimeout = 10 * time.Second
	retryFirst    = 500 * time.Millisecond
	retryMost     = 5 * time.Second
)

// Bounds of a span. All attributes are ours; a text that a client chose is cut before.
const (
	maxAttributes = 64
	maxText       = 2048
)

// A Tracer makes spans and sends them. Its methods may be called concurrently, and
// on nil, which traces nothing and costs nothing.
type Tracer struct {
	tracer    trace.Tracer
	trust     []netip.Prefix
	trustUnix bool
	queue     *queue
	client    *http.Client
}

// Open starts a Tracer. It does not try to reach the receiver. Close it.
func Open(o Options) (*Tracer, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: o.Roots}, ForceAttemptHTTP2: true,
		MaxConnsPerHost: 1, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: exportTimeout}
	client := &http.Client{Transport: transport, Timeout: exportTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }} // the headers are for the receiver alone
	exporter := otlptrace.NewUnstarted(otlptracehttp.NewClient(otlptracehttp.WithEndpointURL(o.Endpoint), otlptracehttp.WithHTTPClient(client),
		otlptracehttp.WithHeaders(o.Headers), otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: retryFirst, MaxInterval: retryMost, MaxElapsedTime: exportTimeout})))
	if err := exporter.Start(context.Background()); err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	about, err := resource.New(context.Background(), resource.WithFromEnv(), resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(semconv.ServiceName(o.Service), semconv.ServiceVersion(build.Version())))
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	q := newQueue(exporter, o.Queue, o.Logger)
	limits := sdk.NewSpanLimits()
	limits.AttributeCountLimit, limits.AttributeValueLengthLimit = maxAttributes, maxText
	p := sdk.NewTracerProvider(sdk.WithSpanProcessor(q), sdk.WithResource(about), sdk.WithRawSpanLimits(limits),
		sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(o.Ratio))))
	return &Tracer{tracer: p.Tracer("tlsproxy", trace.WithSchemaURL(semconv.SchemaURL)), trust: o.Trust, trustUnix: o.TrustUnix, queue: q, client: client}, nil
}

// Stats counts the spans that were sampled and have ended. The counts only grow.
type Stats struct {
	Exported uint64 // the receiver took them
	Failed   uint64 // it could not be reached, or refused some of their batch
	Dropped  uint64 // the queue was full, or the time to send them was over
}

// Stats returns the counts as they stand; nil has none.
func (t *Tracer) Stats() *Stats {
	if t == nil {
		return nil
	}
	return t.queue.stats()
}

// Close sends what is left until ctx is done.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	err := t.queue.Shutdown(ctx)
	left := t.queue.abandon()
	t.client.CloseIdleConnections()
	if left > 0 {
		return fmt.Errorf("tracing: the time to send spans was over; dropped: %d", left)
	}
	if err != nil {
		return fmt.Errorf("tracing: %w", err)
	}
	return nil
}

// parent is the trace that a request says that it is a part of, if its client is
// trusted.
func (t *Tracer) parent(r *http.Request) context.Context {
	ctx := context.Background()
	if !t.trusts(r.RemoteAddr) {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
}

// trusts reports whether a client is trusted. Its address has no port if it came over
// a Unix socket.
func (t *Tracer) trusts(client string) bool {
	at, err := netip.ParseAddrPort(client)
	if err != nil {
		return t.trustUnix
	}
	ip := at.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(t.trust, func(network netip.Prefix) bool { return network.Contains(ip) })
}

// failures limits lines about spans that could not be sent, which come at most once
// for each batch.
func failures(logger *slog.Logger) *logging.Limiter {
	return logging.NewLimiter(logger, "traces that could not be sent", 1)
}
