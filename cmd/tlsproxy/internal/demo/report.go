package demo

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/machine"
	"github.com/ctrutls/ctrutls/provider"
)

// Report is what a demonstration found. Durations are in nanoseconds in JSON.
type Report struct {
	Machine     machine.Machine `json:"machine"`
	Certificate string          `json:"certificate"`
	Rounds      int             `json:"rounds"`
	Duration    time.Duration   `json:"duration"`
	Concurrency int             `json:"concurrency"`
	Probes      []Probe         `json:"probes"`
	Handshakes  []Row           `json:"handshakes"`
	Requests    []Row           `json:"requests"` // a handshake and a request each
	// KeyExchanges is what the server's provider did in all of it.
	KeyExchanges KeyExchanges `json:"key_exchanges"`
}

// KeyExchanges is who computed the exchanges with CTRU-Prime.
type KeyExchanges struct {
	Engine  provider.Engine `json:"engine"`
	Served  uint64          `json:"served"`
	ByGPU   uint64          `json:"by_gpu"`
	Devices []Device        `json:"devices,omitempty"`
}

// Device is a GPU and its batches.
type Device struct {
	Name    string        `json:"name"`
	State   string        `json:"state"`
	Batches uint64        `json:"batches"`
	Rows    uint64        `json:"operations"` // in them
	P50     time.Duration `json:"p50"`        // of a batch
	P99     time.Duration `json:"p99"`
}

func keyExchanges(st provider.Stats) KeyExchanges {
	k := KeyExchanges{Engine: st.Engine}
	for _, op := range st.Operations {
		k.Served += op.Served
		k.ByGPU += op.ByGPU
	}
	if st.GPU != nil {
		for _, d := range st.GPU.Devices {
			k.Devices = append(k.Devices, Device{Name: d.Name, State: d.State, Batches: d.Batches, Rows: d.Rows, P50: d.LatencyP50, P99: d.LatencyP99})
		}
	}
	return k
}

// Probe is what became of a request with one group.
type Probe struct {
	Group     string `json:"group"`
	CodePoint uint16 `json:"code_point"`
	HTTP1     Answer `json:"http1"`
	HTTP2     Answer `json:"http2"`
}

// Answer is what a probe was answered.
type Answer struct {
	Proto  string   `json:"proto"`
	Status int      `json:"status"`
	Errors []string `json:"errors,omitempty"`
}

// Row is one group's measurements: medians of the rounds, sums for the counts.
type Row struct {
	Group     string        `json:"group"`
	Completed int           `json:"completed"`
	Failed    int           `json:"failed"`
	Errors    []string      `json:"errors,omitempty"`
	PerSecond float64       `json:"per_second"`
	P50       time.Duration `json:"p50"`
	P90       time.Duration `json:"p90"`
	P99       time.Duration `json:"p99"`
	ServerCPU time.Duration `json:"server_cpu"` // for each handshake
	ClientCPU time.Duration `json:"client_cpu"`
	// Ratio is that of ServerCPU to the base group's in the same round.
	Ratio float64 `json:"ratio"`
	Base  string  `json:"base"`
}

// rows sums up the samples of each group.
func rows(ids []tls.CurveID, samples [][]sample) []Row {
	base := max(slices.Index(ids, tls.X25519), 0)
	all := make([]Row, len(ids))
	for i, id := range ids {
		r := Row{Group: groups.Name(id), Base: groups.Name(ids[base])}
		for _, s := range samples[i] {
			r.Completed += s.Completed
			r.Failed += s.Failed
			r.Errors = append(append(r.Errors, s.Errors...), s.errors...)
		}
		r.PerSecond = median(samples[i], func(s sample) float64 { return float64(s.Completed) / s.Elapsed.Seconds() })
		r.P50 = median(samples[i], func(s sample) time.Duration { return s.P50 })
		r.P90 = median(samples[i], func(s sample) time.Duration { return s.P90 })
		r.P99 = median(samples[i], func(s sample) time.Duration { return s.P99 })
		r.ServerCPU = median(samples[i], serverCPU)
		r.ClientCPU = median(samples[i], func(s sample) time.Duration { return s.CPU / time.Duration(max(s.Completed, 1)) })
		r.Ratio = medianRatio(samples[i], samples[base])
		all[i] = r
	}
	return all
}

// serverCPU is the server's processor time for each handshake of a sample.
func serverCPU(s sample) time.Duration { return s.serverCPU / time.Duration(max(s.Completed, 1)) }

// medianRatio compares the server's processor time round by round.
func medianRatio(samples, base []sample) float64 {
	var ratios []float64
	for i := range samples {
		if of := serverCPU(base[i]); of > 0 {
			ratios = append(ratios, float64(serverCPU(samples[i]))/float64(of))
		}
	}
	return median(ratios, func(r float64) float64 { return r })
}

// median is the middle value, the upper one of two.
func median[S any, T cmp.Ordered](samples []S, value func(S) T) T {
	var zero T
	if len(samples) == 0 {
		return zero
	}
	values := make([]T, len(samples))
	for i, s := range samples {
		values[i] = value(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// Failures lists everything that did not go as it should.
func (r *Report) Failures() []string {
	var all []string
	for _, p := range r.Probes {
		for name, a := range map[string]Answer{"HTTP/1.1": p.HTTP1, "HTTP/2.0": p.HTTP2} {
			if len(a.Errors) > 0 || a.Status != 200 || a.Proto != name {
				all = append(all, fmt.Sprintf("a request over %s with %s: status %d over %q %s", name, p.Group, a.Status, a.Proto, strings.Join(a.Errors, "; ")))
			}
		}
	}
	for _, table := range [][]Row{r.Handshakes, r.Requests} {
		for _, row := range table {
			switch {
			case row.Failed > 0 || len(row.Errors) > 0:
				all = append(all, fmt.Sprintf("%s: %d failed, such as: %s", row.Group, row.Failed, strings.Join(row.Errors, "; ")))
			case row.Completed == 0:
				all = append(all, fmt.Sprintf("%s: no handshake was completed", row.Group))
			}
		}
	}
	slices.Sort(all)
	return all
}

// WriteText prints the report for people. program names and dates the binary.
func (r *Report) WriteText(w io.Writer, program string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s, %s, %s, %s, cores: %d\n\n", program, r.Machine.Go, r.Machine.OS, r.Machine.CPU, r.Machine.Cores)
	fmt.Fprint(t, "A request to the backend through the proxy:\n\n")
	fmt.Fprint(t, "  negotiated group\tHTTP/1.1\tHTTP/2\t\n")
	for _, p := range r.Probes {
		fmt.Fprintf(t, "  %s (0x%04X)\t%s\t%s\t\n", p.Group, p.CodePoint, p.HTTP1, p.HTTP2)
	}
	r.writeTable(t, "Full TLS 1.3 handshakes", r.Handshakes)
	r.writeTable(t, "The same, each with one request (the server's CPU holds the backend's)", r.Requests)
	r.KeyExchanges.write(t)
	fmt.Fprintf(t, "\n%s certificate, no resumption, %d connections at once, medians of %d interleaved rounds of %v.\n",
		r.Certificate, r.Concurrency, r.Rounds, r.Duration)
	fmt.Fprint(t, "The client is another process on the same cores, and does its own half of each handshake there:\n"+
		"it takes part in deciding the rates and latencies. The server's CPU per handshake is its process's alone.\n")
	return t.Flush()
}

// write says what GPUs did, if there are any.
func (k *KeyExchanges) write(w io.Writer) {
	if len(k.Devices) == 0 {
		return
	}
	fmt.Fprintf(w, "\nOf the server's %d key exchanges with CTRU-Prime GPUs computed %d (engine %s):\n\n", k.Served, k.ByGPU, k.Engine)
	fmt.Fprint(w, "  GPU\tstate\toperations\tbatches\tmean\tbatch p50\tp99\t\n")
	for _, d := range k.Devices {
		fmt.Fprintf(w, "  %s\t%s\t%d\t%d\t%.1f\t%s\t%s\t\n", d.Name, d.State, d.Rows, d.Batches, float64(d.Rows)/float64(max(d.Batches, 1)),
			milliseconds(d.P50), milliseconds(d.P99))
	}
}

func (a Answer) String() string {
	if len(a.Errors) > 0 {
		return "failed: " + a.Errors[0]
	}
	return fmt.Sprint(a.Status)
}

func (r *Report) writeTable(w io.Writer, title string, table []Row) {
	fmt.Fprintf(w, "\n%s:\n\n", title)
	fmt.Fprintf(w, "  group\thandshakes/s\tp50\tp90\tp99\tserver CPU\tratio to %s\tclient CPU\tdone\tfailed\t\n", table[0].Base)
	for _, row := range table {
		fmt.Fprintf(w, "  %s\t%.0f\t%s\t%s\t%s\t%d us\t%.2f\t%d us\t%d\t%d\t\n", row.Group, row.PerSecond,
			milliseconds(row.P50), milliseconds(row.P90), milliseconds(row.P99),
			row.ServerCPU.Microseconds(), row.Ratio, row.ClientCPU.Microseconds(), row.Completed, row.Failed)
	}
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1e3) }
