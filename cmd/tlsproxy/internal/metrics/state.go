package metrics

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logging"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxy"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/tracing"
	"github.com/ctrutls/ctrutls/internal/histogram"
	"github.com/ctrutls/ctrutls/provider"
)

// State is what is read anew for each scrape.
type State struct {
	Proxy          proxy.Stats
	Draining       bool
	KeyExchanges   provider.Stats
	Certificates   int
	Expiries       []Expiry // of the certificates that expire first, in that order: a few
	Reloads        uint64   // that changed something, or that were asked for, and succeeded
	ReloadFailures uint64
	ReloadFailing  bool // the latest did, or one before that the latest has not made good
	FailedUpgrades uint64
	Pools          map[string]Pool
	Tracing        *tracing.Stats // nil: nothing is traced
}

// Expiry says when a certificate expires.
type Expiry struct {
	Names []string // that it is valid for
	At    time.Time
}

// Pool is what there is to know of a pool.
type Pool struct {
	Backends []backend.Status
	Latency  *histogram.Snapshot // from choosing a backend to the header of its answer, in nanoseconds
}

// Follow makes the metrics include what source returns, which is called for each
// scrape, concurrently perhaps.
func (m *Metrics) Follow(source func() State) { m.registry.MustRegister(&state{source}) }

// state turns a State into metrics.
type state struct{ source func() State }

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

// What describes a backend.
var backendLabels = []string{"pool", "url", "address"}

// What describes the certificates that expire first.
var expiryLabels = []string{"name"}

// What describes a device, beside its number.
var deviceLabels = []string{"device"}

var (
	connectionsDesc  = describe("connections", "Clients' connections that are open, those in their handshake included.")
	handshakingDesc  = describe("handshakes_in_flight", "Clients' connections that are in their handshake.")
	waitingDesc      = describe("handshakes_waiting", "Those of them that wait for their turn to be computed (limits.key_exchanges).")
	acceptedDesc     = describe("connections_accepted_total", "Clients' connections that were accepted and not shed.")
	underwayDesc     = describe("requests_in_flight", "Requests under way, connections in mode tcp or passthrough and upgraded ones included.")
	receivedDesc     = describe("received_bytes_total", "Bytes from clients, TLS and handshakes included.")
	sentDesc         = describe("sent_bytes_total", "Bytes to clients, TLS and handshakes included.")
	drainingDesc     = describe("draining", "1 while the proxy lets what is under way come to its end, before it stops.")
	certificatesDesc = describe("certificates", "Certificates that are loaded.")
	reloadsDesc      = describe("reloads_total", "Times that the configuration, or files that it names, were read again, by outcome: ok, or failed, after which all stays as it was.", "outcome")
	reloadableDesc   = describe("config_last_reload_successful", "0 from when the configuration, or files that it names, could not be read again until they could; else 1.")
	upgradesDesc     = describe("upgrade_failures_total", "Times that another process was to take over, at SIGUSR2, and did not serve, so that this one served on. An upgrade that succeeds ends the process, and with it the count.")
	spansDesc        = describe("trace_spans_total", "Spans that were sampled and have ended, by what became of them: exported; failed, the receiver could not be reached or refused some of their batch; or dropped, the queue was full. Only with tracing.endpoint.", "outcome")
	expiryDesc       = describe("certificate_expiry_timestamp_seconds", "When certificates expire: of the 20 that expire first, by the first name that each is valid for.", expiryLabels...)

	backendUpDesc       = describe("backend_up", "1 for a backend that takes part, 0 for one that fails its health check or is ejected.", backendLabels...)
	backendUnderwayDesc = describe("backend_requests_in_flight", "Requests, and connections in mode tcp or passthrough, that a backend serves.", backendLabels...)
	backendServedDesc   = describe("backend_requests_total", "Requests, and connections in mode tcp or passthrough, that a backend answered or took.", backendLabels...)
	backendRetriesDesc  = describe("backend_retries_total", "Requests, and connections in mode tcp or passthrough, that came to a backend because another had failed them.", backendLabels...)
	backendLatencyDesc  = describe("backend_response_duration_seconds", "Time from choosing a backend for a request to the header of its answer, connecting included, of those that were answered.", "pool")
	backendFailuresDesc = describe("backend_failures_total", "Times that a backend could not be reached, gave no answer, or stalled.", backendLabels...)

	operationsDesc = describe("kem_operations_total", "Operations of the key exchange provider that succeeded, by parameter set, operation, and what carried them out.", "scheme", "operation", "engine")
	refusedDesc    = describe("kem_operation_failures_total", "Operations of the key exchange provider that failed, by whose fault it was.", "scheme", "operation", "fault")
	signedDesc     = describe("signatures_total", "Signatures by certificates' keys with provider.gpu.sign, by what made them.", "engine")
	unsignedDesc   = describe("signature_failures_total", "Signatures by certificates' keys with provider.gpu.sign that failed.")
	poolLevelDesc  = describe("key_pool_keys", "Key pairs that are ready.", "scheme")
	poolSizeDesc   = describe("key_pool_size", "Key pairs that are held at most.", "scheme")
	poolMadeDesc   = describe("key_pool_generated_total", "Key pairs that were made for the pool.", "scheme")
	poolTakenDesc  = describe("key_pool_handed_out_total", "Key pairs that were taken from the pool, each once.", "scheme")
	poolWaitsDesc  = describe("key_pool_waits_total", "Calls that found the pool empty.", "scheme")

	loadDesc       = describe("kem_load_processors", "How many processors key exchanges would keep busy if the CPU did them all, averaged over the latest; GPUs are used from one on, or from a quarter of the processors where there are fewer than four. Only with provider.engine auto and a GPU.")
	fallbacksDesc  = describe("gpu_fallbacks_total", "Operations meant for a GPU that the CPU carried out, by reason.", "reason")
	checkedDesc    = describe("gpu_checked_results_total", "Results of GPUs that were computed again on the CPU.")
	mismatchesDesc = describe("gpu_wrong_results_total", "Results of GPUs that were found to be wrong, each of which closes the GPU for good.")

	deviceInfoDesc   = describe("gpu_info", "1, for each GPU that is used.", "device", "name", "pci_bus_id", "compute_capability")
	deviceStateDesc  = describe("gpu_state", "1 for the state that the GPU is in, 0 for the others; open is the good one.", "device", "state")
	deviceMemoryDesc = describe("gpu_memory_bytes", "Memory of the GPU.", deviceLabels...)
	inFlightDesc     = describe("gpu_operations_in_flight", "Operations in batches that have not ended.", deviceLabels...)
	lateDesc         = describe("gpu_late_batches_total", "Batches that took longer than provider.gpu.max_wait.", deviceLabels...)
	faultsDesc       = describe("gpu_faults_total", "Times that the GPU failed, hangs among them.", deviceLabels...)
	hangsDesc        = describe("gpu_hangs_total", "Times that the GPU hung.", deviceLabels...)
	resetsDesc       = describe("gpu_resets_total", "Resets of the GPU's CUDA context.", deviceLabels...)
	reopenedDesc     = describe("gpu_reopenings_total", "Times that the GPU was opened again after a fault.", deviceLabels...)
	durationDesc     = describe("gpu_batch_duration_seconds", "Time that batches take, from pinned memory to pinned memory.", deviceLabels...)
	sizeDesc         = describe("gpu_batch_size", "Operations in a batch.", deviceLabels...)
	memoryUsedDesc   = describe("gpu_memory_used_bytes", "Memory of the GPU that is in use, by all processes.", deviceLabels...)
	utilizationDesc  = describe("gpu_utilization_ratio", "Share of the latest second or less in which the GPU ran a kernel, of any process.", deviceLabels...)
	temperatureDesc  = describe("gpu_temperature_celsius", "Temperature of the GPU's chip.", deviceLabels...)
	powerDesc        = describe("gpu_power_watts", "What the GPU draws.", deviceLabels...)
)

// Buckets of the classic form.
var (
	batchBuckets = []float64{.00003, .00006, .000125, .00025, .0005, .001, .002, .004, .008, .016, .032, .064, .1, .25, .5, 1, 2}
	sizeBuckets  = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536}
)

// deviceStates are the states of provider.DeviceStats, as labels.
var deviceStates = []string{"open", "stalled", "reopening", "closed", "refused"}

// Describe implements prometheus.Collector. What is collected depends on the
// machine, and so is left unchecked.
func (*state) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s *state) Collect(out chan<- prometheus.Metric) {
	now := s.source()
	c := collection{out}
	c.gauge(connectionsDesc, float64(now.Proxy.Open))
	c.gauge(handshakingDesc, float64(now.Proxy.Handshaking))
	c.gauge(waitingDesc, float64(now.Proxy.Waiting))
	c.gauge(underwayDesc, float64(now.Proxy.Underway))
	c.count(acceptedDesc, now.Proxy.Accepted)
	c.count(receivedDesc, now.Proxy.Received)
	c.count(sentDesc, now.Proxy.Sent)
	c.gauge(drainingDesc, truth(now.Draining))
	c.gauge(certificatesDesc, float64(now.Certificates))
	c.count(reloadsDesc, now.Reloads, "ok")
	c.count(reloadsDesc, now.ReloadFailures, "failed")
	c.gauge(reloadableDesc, truth(!now.ReloadFailing))
	c.count(upgradesDesc, now.FailedUpgrades)
	c.expiries(now.Expiries)
	for name, pool := range now.Pools {
		c.pool(name, &pool)
	}
	if t := now.Tracing; t != nil {
		c.count(spansDesc, t.Exported, "exported")
		c.count(spansDesc, t.Failed, "failed")
		c.count(spansDesc, t.Dropped, "dropped")
	}
	c.provider(&now.KeyExchanges)
}

// truth is 1 for true.
func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// maxName bounds what a certificate puts into a label, in bytes.
const maxName = 255

// collection takes metrics in.
type collection struct{ out chan<- prometheus.Metric }

func (c collection) gauge(d *prometheus.Desc, value float64, labels ...string) {
	c.out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (c collection) count(d *prometheus.Desc, value uint64, labels ...string) {
	c.out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

// expiries takes the first of certificates that have their first name in common.
func (c collection) expiries(soonest []Expiry) {
	seen := map[string]bool{}
	for _, e := range soonest {
		name := none
		if len(e.Names) > 0 {
			name = logging.Peer(e.Names[0], maxName)
		}
		if !seen[name] {
			seen[name] = true
			c.gauge(expiryDesc, float64(e.At.Unix()), name)
		}
	}
}

func (c collection) pool(name string, pool *Pool) {
	c.histogram(backendLatencyDesc, pool.Latency.Buckets(1e-9), float64(pool.Latency.Sum)*1e-9, requestBuckets, name)
	for _, b := range pool.Backends {
		labels := []string{name, b.URL, b.Address}
		c.gauge(backendUpDesc, truth(b.Up()), labels...)
		c.count(backendRetriesDesc, b.Retries, labels...)
		c.gauge(backendUnderwayDesc, float64(b.Underway), labels...)
		c.count(backendServedDesc, b.Served, labels...)
		c.count(backendFailuresDesc, b.Failures, labels...)
	}
}

func (c collection) provider(st *provider.Stats) {
	for _, o := range st.Operations {
		c.count(operationsDesc, o.ByGPU, o.Scheme, o.Operation, "gpu")
		c.count(operationsDesc, o.Served-min(o.ByGPU, o.Served), o.Scheme, o.Operation, "cpu")
		c.count(refusedDesc, o.PeerFaults, o.Scheme, o.Operation, "peer")
		c.count(refusedDesc, o.Failures, o.Scheme, o.Operation, "own")
	}
	c.count(signedDesc, st.Signatures.ByGPU, "gpu")
	c.count(signedDesc, st.Signatures.Served-min(st.Signatures.ByGPU, st.Signatures.Served), "cpu")
	c.count(unsignedDesc, st.Signatures.Failures)
	for _, k := range st.KeyPools {
		c.gauge(poolLevelDesc, float64(k.Level), k.Scheme)
		c.gauge(poolSizeDesc, float64(k.Size), k.Scheme)
		c.count(poolMadeDesc, k.Generated, k.Scheme)
		c.count(poolTakenDesc, k.HandedOut, k.Scheme)
		c.count(poolWaitsDesc, k.Waits, k.Scheme)
	}
	if st.Routing != nil {
		c.gauge(loadDesc, st.Routing.Load)
	}
	if g := st.GPU; g != nil {
		c.count(fallbacksDesc, g.Full, "full")
		c.count(fallbacksDesc, g.Unavailable, "unavailable")
		c.count(fallbacksDesc, g.Late, "late")
		c.count(fallbacksDesc, g.Faulted, "faulted")
		c.count(checkedDesc, g.Checked)
		c.count(mismatchesDesc, g.Mismatches)
		for i := range g.Devices {
			c.device(&g.Devices[i])
		}
	}
}

func (c collection) device(d *provider.DeviceStats) {
	number := strconv.Itoa(d.Number)
	c.gauge(deviceInfoDesc, 1, number, d.Name, d.PCIBusID, d.ComputeCapability)
	is, _, _ := strings.Cut(d.State, ":")
	for _, name := range deviceStates {
		c.gauge(deviceStateDesc, truth(name == is), number, name)
	}
	c.gauge(deviceMemoryDesc, float64(d.Memory), number)
	if d.MemoryUsed != nil {
		c.gauge(memoryUsedDesc, float64(*d.MemoryUsed), number)
	}
	for desc, value := range map[*prometheus.Desc]*float64{utilizationDesc: d.Utilization, temperatureDesc: d.Temperature, powerDesc: d.Power} {
		if value != nil {
			c.gauge(desc, *value, number)
		}
	}
	c.gauge(inFlightDesc, float64(d.InFlight), number)
	c.count(lateDesc, d.Late, number)
	c.count(faultsDesc, d.Faults, number)
	c.count(hangsDesc, d.Hangs, number)
	c.count(resetsDesc, d.Resets, number)
	c.count(reopenedDesc, d.Reopened, number)
	c.histogram(durationDesc, d.Latencies, d.LatencySum.Seconds(), batchBuckets, number)
	c.histogram(sizeDesc, d.Sizes, float64(d.Rows), sizeBuckets, number)
}
