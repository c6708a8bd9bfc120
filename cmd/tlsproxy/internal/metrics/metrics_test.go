package metrics

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxy"
	"github.com/ctrutls/ctrutls/internal/histogram"
	"github.com/ctrutls/ctrutls/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// compare checks the metrics of those names against their text form.
func compare(t *testing.T, m *Metrics, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(m.Gatherer(), strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

func TestHandshakes(t *testing.T) {
	m := New()
	done := proxy.HandshakeEvent{Outcome: proxy.HandshakeDone, Version: tls.VersionTLS13, Group: tls.X25519MLKEM768, Duration: 3 * time.Millisecond}
	m.ObserveHandshake(done)
	m.ObserveHandshake(done)
	done.Resumed = true
	m.ObserveHandshake(done)
	m.ObserveHandshake(proxy.HandshakeEvent{Outcome: proxy.HandshakeRefused, AlertSent: "handshake failure"})
	for _, name := range []string{"alert(200)", "alert(201)"} { // a client's choice makes no series of its own
		m.ObserveHandshake(proxy.HandshakeEvent{Outcome: proxy.HandshakeRefused, Version: tls.VersionTLS12, AlertReceived: name})
	}
	compare(t, m, `
# HELP tlsproxy_handshakes_total TLS handshakes that succeeded, by TLS version, key exchange group, and whether they resumed a session.
# TYPE tlsproxy_handshakes_total counter
tlsproxy_handshakes_total{group="X25519MLKEM768",resumed="false",version="1.3"} 2
tlsproxy_handshakes_total{group="X25519MLKEM768",resumed="true",version="1.3"} 1
# HELP tlsproxy_handshake_failures_total TLS handshakes that failed, by outcome, by the alert that was sent or received (none: without one that was seen), and by the version and group agreed on so far. Clients that leave without a word are not counted.
# TYPE tlsproxy_handshake_failures_total counter
tlsproxy_handshake_failures_total{alert_received="none",alert_sent="handshake_failure",group="none",outcome="refused",version="none"} 1
tlsproxy_handshake_failures_total{alert_received="unknown",alert_sent="none",group="none",outcome="refused",version="1.2"} 2
`, "tlsproxy_handshakes_total", "tlsproxy_handshake_failures_total")
	if n := testutil.CollectAndCount(m.handshakeDuration); n != 2 {
		t.Errorf("%d series of durations, want one each for full and resumed", n)
	}
}

func TestRequests(t *testing.T) {
	m := New()
	m.ObserveRequest(proxy.RequestEvent{Protocol: "HTTP/2.0", Status: 204, Bytes: 10})
	m.ObserveRequest(proxy.RequestEvent{Protocol: "HTTP/1.1", Status: 101, Bytes: 99, Duration: time.Hour})
	m.ObserveRequest(proxy.RequestEvent{Protocol: "HTTP/1.0"})
	m.ObserveShed("limits.connections")
	compare(t, m, `
# HELP tlsproxy_connections_shed_total Connections closed because of a limit, at accept or at their ClientHello, by the limit.
# TYPE tlsproxy_connections_shed_total counter
tlsproxy_connections_shed_total{limit="limits.connections"} 1
# HELP tlsproxy_requests_total Requests, by protocol and class of the answer's status (aborted: no answer was begun).
# TYPE tlsproxy_requests_total counter
tlsproxy_requests_total{code="1xx",protocol="1"} 1
tlsproxy_requests_total{code="2xx",protocol="2"} 1
tlsproxy_requests_total{code="aborted",protocol="1"} 1
# HELP tlsproxy_response_body_bytes_total Bytes of answers' bodies, upgraded connections left out.
# TYPE tlsproxy_response_body_bytes_total counter
tlsproxy_response_body_bytes_total 10
`, "tlsproxy_connections_shed_total", "tlsproxy_requests_total", "tlsproxy_response_body_bytes_total")
}

// What is read at a scrape: a machine with a GPU that failed.
func TestState(t *testing.T) {
	m := New()
	m.Follow(func() State {
		return State{Proxy: proxy.Stats{Open: 5}, Certificates: 2, Pools: map[string]Pool{"web": {Latency: new(histogram.Histogram).Snapshot(), Backends: []backend.Status{
			{URL: "http://a:1", Address: "192.0.2.1:1", Healthy: true, Underway: 3, Served: 40, Failures: 5},
			{URL: "http://a:1", Address: "192.0.2.2:1", Healthy: true, Ejected: time.Now()},
			{URL: "http://a:1/b", Address: "a:1", Retries: 6}}}},
			Expiries: []Expiry{{[]string{"a.example", "b.example"}, time.Unix(1_900_000_000, 0)}, {[]string{"a.example"}, time.Unix(1_900_000_001, 0)}, {nil, time.Unix(1_900_000_002, 0)}},
			KeyExchanges: provider.Stats{
				Operations: []provider.OperationStats{{Scheme: "CTRU-Prime-761", Operation: "server-exchange", Served: 10, ByGPU: 7, PeerFaults: 2, Failures: 1}},
				Signatures: provider.OperationStats{Served: 9, ByGPU: 5, Failures: 4},
				GPU: &provider.GPUStats{Full: 3, Mismatches: 1, Devices: []provider.DeviceStats{{Number: 1, Name: "NVIDIA H200", PCIBusID: "0000:17:00.0",
					ComputeCapability: "9.0", State: "refused: wrong result", LatencyP99: 2 * time.Millisecond, Temperature: new(61.5)}}}}}
	})
	compare(t, m, `
# HELP tlsproxy_backend_failures_total Times that a backend could not be reached, gave no answer, or stalled.
# TYPE tlsproxy_backend_failures_total counter
tlsproxy_backend_failures_total{address="192.0.2.1:1",pool="web",url="http://a:1"} 5
tlsproxy_backend_failures_total{address="192.0.2.2:1",pool="web",url="http://a:1"} 0
tlsproxy_backend_failures_total{address="a:1",pool="web",url="http://a:1/b"} 0
# HELP tlsproxy_backend_requests_in_flight Requests, and connections in mode tcp or passthrough, that a backend serves.
# TYPE tlsproxy_backend_requests_in_flight gauge
tlsproxy_backend_requests_in_flight{address="192.0.2.1:1",pool="web",url="http://a:1"} 3
tlsproxy_backend_requests_in_flight{address="192.0.2.2:1",pool="web",url="http://a:1"} 0
tlsproxy_backend_requests_in_flight{address="a:1",pool="web",url="http://a:1/b"} 0
# HELP tlsproxy_backend_requests_total Requests, and connections in mode tcp or passthrough, that a backend answered or took.
# TYPE tlsproxy_backend_requests_total counter
tlsproxy_backend_requests_total{address="192.0.2.1:1",pool="web",url="http://a:1"} 40
tlsproxy_backend_requests_total{address="192.0.2.2:1",pool="web",url="http://a:1"} 0
tlsproxy_backend_requests_total{address="a:1",pool="web",url="http://a:1/b"} 0
# HELP tlsproxy_backend_retries_total Requests, and connections in mode tcp or passthrough, that came to a backend because another had failed them.
# TYPE tlsproxy_backend_retries_total counter
tlsproxy_backend_retries_total{address="192.0.2.1:1",pool="web",url="http://a:1"} 0
tlsproxy_backend_retries_total{address="192.0.2.2:1",pool="web",url="http://a:1"} 0
tlsproxy_backend_retries_total{address="a:1",pool="web",url="http://a:1/b"} 6
# HELP tlsproxy_backend_up 1 for a backend that takes part, 0 for one that fails its health check or is ejected.
# TYPE tlsproxy_backend_up gauge
tlsproxy_backend_up{address="192.0.2.1:1",pool="web",url="http://a:1"} 1
tlsproxy_backend_up{address="192.0.2.2:1",pool="web",url="http://a:1"} 0
tlsproxy_backend_up{address="a:1",pool="web",url="http://a:1/b"} 0
# HELP tlsproxy_certificate_expiry_timestamp_seconds When certificates expire: of the 20 that expire first, by the first name that each is valid for.
# TYPE tlsproxy_certificate_expiry_timestamp_seconds gauge
tlsproxy_certificate_expiry_timestamp_seconds{name="a.example"} 1.9e+09
tlsproxy_certificate_expiry_timestamp_seconds{name="none"} 1.900000002e+09
# HELP tlsproxy_connections Clients' connections that are open, those in their handshake included.
# TYPE tlsproxy_connections gauge
tlsproxy_connections 5
# HELP tlsproxy_kem_operation_failures_total Operations of the key exchange provider that failed, by whose fault it was.
# TYPE tlsproxy_kem_operation_failures_total counter
tlsproxy_kem_operation_failures_total{fault="own",operation="server-exchange",scheme="CTRU-Prime-761"} 1
tlsproxy_kem_operation_failures_total{fault="peer",operation="server-exchange",scheme="CTRU-Prime-761"} 2
# HELP tlsproxy_kem_operations_total Operations of the key exchange provider that succeeded, by parameter set, operation, and what carried them out.
# TYPE tlsproxy_kem_operations_total counter
tlsproxy_kem_operations_total{engine="cpu",operation="server-exchange",scheme="CTRU-Prime-761"} 3
tlsproxy_kem_operations_total{engine="gpu",operation="server-exchange",scheme="CTRU-Prime-761"} 7
# HELP tlsproxy_signature_failures_total Signatures by certificates' keys with provider.gpu.sign that failed.
# TYPE tlsproxy_signature_failures_total counter
tlsproxy_signature_failures_total 4
# HELP tlsproxy_signatures_total Signatures by certificates' keys with provider.gpu.sign, by what made them.
# TYPE tlsproxy_signatures_total counter
tlsproxy_signatures_total{engine="cpu"} 4
tlsproxy_signatures_total{engine="gpu"} 5
# HELP tlsproxy_gpu_state 1 for the state that the GPU is in, 0 for the others; open is the good one.
# TYPE tlsproxy_gpu_state gauge
tlsproxy_gpu_state{device="1",state="closed"} 0
tlsproxy_gpu_state{device="1",state="open"} 0
tlsproxy_gpu_state{device="1",state="refused"} 1
tlsproxy_gpu_state{device="1",state="reopening"} 0
tlsproxy_gpu_state{device="1",state="stalled"} 0
# HELP tlsproxy_gpu_temperature_celsius Temperature of the GPU's chip.
# TYPE tlsproxy_gpu_temperature_celsius gauge
tlsproxy_gpu_temperature_celsius{device="1"} 61.5
# HELP tlsproxy_gpu_info 1, for each GPU that is used.
# TYPE tlsproxy_gpu_info gauge
tlsproxy_gpu_info{compute_capability="9.0",device="1",name="NVIDIA H200",pci_bus_id="0000:17:00.0"} 1
# HELP tlsproxy_gpu_wrong_results_total Results of GPUs that were found to be wrong, each of which closes the GPU for good.
# TYPE tlsproxy_gpu_wrong_results_total counter
tlsproxy_gpu_wrong_results_total 1
`, "tlsproxy_backend_failures_total", "tlsproxy_backend_requests_in_flight", "tlsproxy_backend_requests_total", "tlsproxy_backend_retries_total", "tlsproxy_backend_up",
		"tlsproxy_certificate_expiry_timestamp_seconds", "tlsproxy_connections", "tlsproxy_kem_operation_failures_total", "tlsproxy_kem_operations_total",
		"tlsproxy_signature_failures_total", "tlsproxy_signatures_total", "tlsproxy_gpu_state", "tlsproxy_gpu_temperature_celsius", "tlsproxy_gpu_power_watts", "tlsproxy_gpu_info", "tlsproxy_gpu_wrong_results_total")
	if problems, err := testutil.GatherAndLint(m.Gatherer()); err != nil || len(problems) != 0 {
		t.Errorf("against Prometheus' conventions: %v, %v", problems, err)
	}
}
