package metrics

import (
	"crypto/tls"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/build"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxy"
	"github.com/ctrutls/ctrutls/internal/histogram"
)

// namespace is what every name begins with, but for those of the Go runtime and
// of the process.
const namespace = "tlsproxy"

// Metrics is a proxy.Observer whose counts a Prometheus server can fetch. Its
// methods may be called concurrently.
type Metrics struct {
	registry *prometheus.Registry

	handshakes        *prometheus.CounterVec
	handshakeFailures *prometheus.CounterVec
	handshakeDuration *prometheus.HistogramVec
	shed              *prometheus.CounterVec
	expired           *prometheus.CounterVec
	requests          *prometheus.CounterVec
	requestDuration   *prometheus.HistogramVec
	responseBytes     prometheus.Counter

	latency histogram.Histogram // of handshakes that succeeded, in nanoseconds
}

// HandshakeLatency returns how long handshakes that succeeded took, in nanoseconds.
func (m *Metrics) HandshakeLatency() *histogram.Snapshot { return m.latency.Snapshot() }

// New returns Metrics that have seen nothing.
func New() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		handshakes: counters("handshakes_total", "TLS handshakes that succeeded, by TLS version, key exchange group, and whether they resumed a session.",
			"version", "group", "resumed"),
		handshakeFailures: counters("handshake_failures_total",
			"TLS handshakes that failed, by outcome, by the alert that was sent or received (none: without one that was seen), and by the version and group agreed on so far. "+
				"Clients that leave without a word are not counted.",
			"outcome", "alert_sent", "alert_received", "version", "group"),
		handshakeDuration: histograms("handshake_duration_seconds", "Time from accepting a connection to the end of its TLS handshake, for those that succeeded.", handshakeBuckets, "group", "resumed"),
		shed:              counters("connections_shed_total", "Connections closed because of a limit, at accept or at their ClientHello, by the limit.", "limit"),
		expired:           counters("connections_expired_total", "Connections that ended because of their lifetime: drained, or cut after the time to drain.", "outcome"),
		requests:          counters("requests_total", "Requests, by protocol and class of the answer's status (aborted: no answer was begun).", "protocol", "code"),
		requestDuration:   histograms("request_duration_seconds", "Time from a request's header to the end of its answer, upgraded connections left out.", requestBuckets, "protocol"),
		responseBytes: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "response_body_bytes_total",
			Help: "Bytes of answers' bodies, upgraded connections left out."}),
	}
	m.registry.MustRegister(buildInfo(), m.handshakes, m.handshakeFailures, m.handshakeDuration, m.shed, m.expired, m.requests, m.requestDuration, m.responseBytes,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// buildInfo is about the program itself.
func buildInfo() prometheus.Collector {
	labels := prometheus.Labels{"version": build.Version(), "commit": build.Commit(), "goversion": runtime.Version(), "hook": strconv.FormatBool(groups.HookPresent())}
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: "build_info", ConstLabels: labels,
		Help: "1, for the program's version, the commit that it was built from, the Go release, and whether the hook in crypto/tls is there."}, func() float64 { return 1 })
}

// Gatherer gives the metrics as they stand.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// Buckets of the classic form of the histograms, in seconds. The native form,
// which a Prometheus server of today takes in their place, needs none.
var (
	handshakeBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	requestBuckets   = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
)

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour}, labels)
}

// none is a label's value where there is nothing to say.
const none = "none"

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}

func versionLabel(v uint16) string {
	if v == 0 {
		return none
	}
	return strings.TrimPrefix(tls.VersionName(v), "TLS ")
}

// ObserveHandshake counts a handshake.
func (m *Metrics) ObserveHandshake(e proxy.HandshakeEvent) {
	group, version, resumed := groups.Label(e.Group), versionLabel(e.Version), strconv.FormatBool(e.Resumed)
	if e.Outcome != proxy.HandshakeDone {
		m.handshakeFailures.WithLabelValues(string(e.Outcome), alertLabel(e.AlertSent), alertLabel(e.AlertReceived), version, group).Inc()
		return
	}
	m.latency.Add(uint64(max(e.Duration, 0)))
	m.handshakes.WithLabelValues(version, group, resumed).Inc()
	m.handshakeDuration.WithLabelValues(group, resumed).Observe(e.Duration.Seconds())
}

// observe adds a value, with the trace that it is from as an exemplar if there is one.
func observe(o prometheus.Observer, value float64, traceID string) {
	if traceID == "" {
		o.Observe(value)
		return
	}
	o.(prometheus.ExemplarObserver).ObserveWithExemplar(value, prometheus.Labels{"trace_id": traceID})
}

// alertLabel is an alert's name as crypto/tls has it, with underscores. A client
// can send any of 256: those that crypto/tls has no name for are one.
func alertLabel(name string) string {
	if strings.HasPrefix(name, "alert(") {
		return "unknown"
	}
	return orNone(strings.ReplaceAll(name, " ", "_"))
}

// ObserveShed counts a connection.
func (m *Metrics) ObserveShed(limit string) { m.shed.WithLabelValues(limit).Inc() }

// ObserveExpired counts a connection.
func (m *Metrics) ObserveExpired(cut bool) {
	outcome := "drained"
	if cut {
		outcome = "cut"
	}
	m.expired.WithLabelValues(outcome).Inc()
}

// ObserveRequest counts a request.
func (m *Metrics) ObserveRequest(e proxy.RequestEvent) {
	protocol := "1"
	if e.Protocol == "HTTP/2.0" {
		protocol = "2"
	}
	class := "aborted"
	if e.Status != 0 {
		class = strconv.Itoa(e.Status/100) + "xx"
	}
	m.requests.WithLabelValues(protocol, class).Inc()
	if e.Status != 101 {
		observe(m.requestDuration.WithLabelValues(protocol), e.Duration.Seconds(), e.TraceID)
		m.responseBytes.Add(float64(e.Bytes))
	}
}
