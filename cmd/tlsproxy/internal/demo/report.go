package demo

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/comparison"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/machine"
	"github.com/ctrutls/ctrutls/provider"
)

// Report is what a demonstration found. Durations are in nanoseconds in JSON.
type Report struct {
	Machine     machine.Machine  `json:"machine"`
	Certificate string           `json:"certificate"`
	Rounds      int              `json:"rounds"`
	Duration    time.Duration    `json:"duration"`
	Concurrency int              `json:"concurrency"`
	Probes      []Probe          `json:"probes"`
	Handshakes  []comparison.Row `json:"handshakes"`
	Requests    []comparison.Row `json:"requests"` // a handshake and a request each
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

// The protocols that are probed.
const (
	http1 = "HTTP/1.1"
	http2 = "HTTP/2.0"
)

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

// Failures lists everything that did not go as it should.
func (r *Report) Failures() []string {
	var all []string
	for _, p := range r.Probes {
		for name, a := range map[string]Answer{http1: p.HTTP1, http2: p.HTTP2} {
			if len(a.Errors) > 0 || a.Status != 200 || a.Proto != name {
				all = append(all, fmt.Sprintf("a request over %s with %s: status %d over %q %s", name, p.Group, a.Status, a.Proto, strings.Join(a.Errors, "; ")))
			}
		}
	}
	for _, table := range [][]comparison.Row{r.Handshakes, r.Requests} {
		for _, row := range table {
			if text := row.Failure(); text != "" {
				all = append(all, row.Name+": "+text)
			}
		}
	}
	slices.Sort(all)
	return all
}

// WriteText prints the report for people. program names and dates the binary.
func (r *Report) WriteText(w io.Writer, program string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s, %s\n\n", program, r.Machine)
	fmt.Fprint(t, "A request to the backend through the proxy:\n\n")
	fmt.Fprint(t, "  negotiated group\tHTTP/1.1\tHTTP/2\t\n")
	for _, p := range r.Probes {
		fmt.Fprintf(t, "  %s (0x%04X)\t%s\t%s\t\n", p.Group, p.CodePoint, p.HTTP1, p.HTTP2)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprint(w, "\nFull TLS 1.3 handshakes:\n\n")
	if err := comparison.WriteTable(w, r.Handshakes); err != nil {
		return err
	}
	fmt.Fprint(w, "\nThe same, each with one request (the server's CPU holds the backend's):\n\n")
	if err := comparison.WriteTable(w, r.Requests); err != nil {
		return err
	}
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
			comparison.Milliseconds(d.P50), comparison.Milliseconds(d.P99))
	}
}

func (a Answer) String() string {
	if len(a.Errors) > 0 {
		return "failed: " + a.Errors[0]
	}
	return fmt.Sprint(a.Status)
}
