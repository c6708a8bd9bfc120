package metrics

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxy"
	"github.com/ctrutls/ctrutls/provider"
)

// State is what is read anew for each scrape.
type State struct {
	Proxy             proxy.Stats
	KeyExchanges      provider.Stats
	CertificateExpiry time.Time // of the certificate that expires first; zero if there is none
	Certificates      int
	Reloads           uint64 // that changed something, or that were asked for, and succeeded
	ReloadFailures    uint64
	Pools             map[string][]backend.Status
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

// What describes a device, beside its number.
var deviceLabels = []string{"device"}

var (
	connectionsDesc  = describe("connections", "Clients' connections that are open, those in their handshake included.")
	certificatesDesc = describe("certificates", "Certificates that are loaded.")
	reloadsDesc      = describe("reloads_total", "Times that the configuration, or files that it names, were read again, by outcome: ok, or failed, after which all stays as it was.", "outcome")
	expiryDesc       = describe("certificate_expiry_timestamp_seconds", "When the certificate expires that expires first.")

	backendUpDesc       = describe("backend_up", "1 for a backend that takes part, 0 for one that fails its health check or is ejected.", backendLabels...)
	backendUnderwayDesc = describe("backend_requests_in_flight", "Requests, and connections in mode tcp or passthrough, that a backend serves.", backendLabels...)
	backendServedDesc   = describe("backend_requests_total", "Those that a backend answered or took.", backendLabels...)
	backendFailuresDesc = describe("backend_failures_total", "Times that a backend could not be reached, gave no answer, or stalled.", backendLabels...)

	operationsDesc = describe("kem_operations_total", "Operations of the key exchange provider that succeeded, by parameter set, operation, and what carried them out.", "scheme", "operation", "engine")
	refusedDesc    = describe("kem_operation_failures_total", "Operations of the key exchange provider that failed, by whose fault it was.", "scheme", "operation", "fault")
	signedDesc     = describe("signatures_total", "Signatures by certificates' keys with provider.gpu.sign, by what made them.", "engine")
	unsignedDesc   = describe("signature_failures_total", "Those of them that failed.")
	poolLevelDesc  = describe("key_pool_keys", "Key pairs that are ready.", "scheme")
	poolSizeDesc   = describe("key_pool_size", "Key pairs that are held at most.", "scheme")
	poolWaitsDesc  = describe("key_pool_waits_total", "Calls that found the pool empty.", "scheme")

	fallbacksDesc  = describe("gpu_fallbacks_total", "Operations meant for a GPU that the CPU carried out, by reason.", "reason")
	checkedDesc    = describe("gpu_checked_results_total", "Results of GPUs that were computed again on the CPU.")
	mismatchesDesc = describe("gpu_wrong_results_total", "Those of them that were wrong, each of which closes a GPU for good.")

	deviceInfoDesc   = describe("gpu_info", "1, for each GPU that is used.", "device", "name", "pci_bus_id", "compute_capability")
	deviceStateDesc  = describe("gpu_state", "1 for the state that the GPU is in, 0 for the others; open is the good one.", "device", "state")
	deviceMemoryDesc = describe("gpu_memory_bytes", "Memory of the GPU.", deviceLabels...)
	inFlightDesc     = describe("gpu_operations_in_flight", "Operations in batches that have not ended.", deviceLabels...)
	lateDesc         = describe("gpu_late_batches_total", "Batches that took longer than provider.gpu.max_wait.", deviceLabels...)
	faultsDesc       = describe("gpu_faults_total", "Times that the GPU failed, hangs among them.", deviceLabels...)
	hangsDesc        = describe("gpu_hangs_total", "Times that the GPU hung.", deviceLabels...)
	resetsDesc       = describe("gpu_resets_total", "Resets of the GPU's CUDA context.", deviceLabels...)
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
	c.gauge(certificatesDesc, float64(now.Certificates))
	c.count(reloadsDesc, now.Reloads, "ok")
	c.count(reloadsDesc, now.ReloadFailures, "failed")
	if !now.CertificateExpiry.IsZero() {
		c.gauge(expiryDesc, float64(now.CertificateExpiry.Unix()))
	}
	for name, pool := range now.Pools {
		c.pool(name, pool)
	}
	c.provider(&now.KeyExchanges)
}

// collection takes metrics in.
type collection struct{ out chan<- prometheus.Metric }

func (c collection) gauge(d *prometheus.Desc, value float64, labels ...string) {
	c.out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (c collection) count(d *prometheus.Desc, value uint64, labels ...string) {
	c.out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

func (c collection) pool(name string, backends []backend.Status) {
	for _, b := range backends {
		up := 0.0
		if b.Up() {
			up = 1
		}
		labels := []string{name, b.URL, b.Address}
		c.gauge(backendUpDesc, up, labels...)
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
		c.count(poolWaitsDesc, k.Waits, k.Scheme)
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
		value := 0.0
		if name == is {
			value = 1
		}
		c.gauge(deviceStateDesc, value, number, name)
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
	c.histogram(durationDesc, d.Latencies, d.LatencySum.Seconds(), batchBuckets, number)
	c.histogram(sizeDesc, d.Sizes, float64(d.Rows), sizeBuckets, number)
}
