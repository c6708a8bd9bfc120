package gpu

import (
	"fmt"
	"time"

	"github.com/ctrutls/ctrutls/internal/histogram"
)

// A State is how a device stands.
type State = string

// The states.
const (
	StateOpen      State = "open"
	StateStalled   State = "stalled"               // a batch is late
	StateReopening State = "reopening"             // it failed, and is opened again after a pause
	StateClosed    State = "closed"                // it cannot be used by this process any more
	StateRefused   State = "refused: wrong result" // a result was not the CPU's
)

// DeviceStats is a device's description, state and counters, which only grow, but for InFlight.
type DeviceStats struct {
	Number            int    // as CUDA numbers devices
	Name              string // "NVIDIA H200"
	PCIBusID          string // "0000:17:00.0"
	ComputeCapability string // "9.0"
	Memory            uint64 // bytes

	State     State
	Since     time.Time // of the state
	LastError string    // empty if there was none

	InFlight int    // rows in batches that have not ended
	Batches  uint64 // that ended well
	Rows     uint64 // in them
	JobRows  uint64 // rows of Jobs
	Late     uint64 // batches that their callers gave up
	Faults   uint64 // sessions that ended with a fault, hangs among them
	Hangs    uint64
	Resets   uint64 // of the context
	Reopened uint64 // times that the device opened again

	// Of a batch, from the start of the copy to the device to the results on the host.
	LatencyP50, LatencyP99 time.Duration
	LatencySum             time.Duration      // of all batches
	Latencies              []histogram.Bucket // of all batches, in seconds
	Sizes                  []histogram.Bucket // the same, in operations

	// Of all processes, as NVML has them; nil where it has not.
	MemoryUsed  *uint64  // bytes
	Utilization *float64 // the share of the latest second or less in which a kernel ran
	Temperature *float64 // degrees Celsius
	Power       *float64 // watts
}

// Latency is what batches take of late: Mean, and by the number of their rows, n, Base + n * Row; and what a row takes, the time included that
// it waits for its batch to start: Flight. Zeros say that none was measured.
type Latency struct{ Mean, Base, Row, Flight time.Duration }

// Latency returns what batches of a kind take, on the device that is expected to be done first.
func (e *Engine) Latency(k *Kind) Latency {
	i, s := e.best(k, 0)
	if s == nil {
		return Latency{}
	}
	line := &e.devices[i].latency[k.index]
	base, row := line.Value()
	flight := e.devices[i].flight[k.index].Value()
	return Latency{time.Duration(line.Mean()), time.Duration(base), time.Duration(row), time.Duration(flight)}
}

// Available says whether a device takes rows.
func (e *Engine) Available() bool {
	for _, d := range e.devices {
		if s := d.session.Load(); s != nil && s.late.Load() == 0 {
			return true
		}
	}
	return false
}

// Stats returns how each device stands.
func (e *Engine) Stats() []DeviceStats {
	var all []DeviceStats
	for _, d := range e.devices {
		all = append(all, d.stats())
	}
	return all
}

func (d *device) stats() DeviceStats {
	// The state first: what has led to it is then in the counters.
	d.mu.Lock()
	st := DeviceStats{State: d.state, Since: d.since}
	if d.fault != nil {
		st.LastError = d.fault.Error()
	}
	d.mu.Unlock()
	st.Number, st.Name, st.PCIBusID, st.Memory = d.number, d.info.Name, d.info.PCIBusID, d.info.Memory
	st.ComputeCapability = fmt.Sprintf("%d.%d", d.info.Major, d.info.Minor)
	if s := d.session.Load(); s != nil {
		st.InFlight = s.inFlight()
	}
	st.Batches, st.Rows, st.JobRows, st.Late = d.batches.Load(), d.rows.Load(), d.jobRows.Load(), d.late.Load()
	st.Faults, st.Hangs, st.Resets, st.Reopened = d.faults.Load(), d.hangs.Load(), d.resets.Load(), d.reopened.Load()
	latencies, sizes := d.latencies.Snapshot(), d.sizes.Snapshot()
	st.LatencyP50, st.LatencyP99 = time.Duration(latencies.Quantile(0.5)), time.Duration(latencies.Quantile(0.99))
	st.Latencies, st.LatencySum = latencies.Buckets(1e-9), time.Duration(latencies.Sum)
	st.Sizes = sizes.Buckets(1)
	d.sense(&st)
	return st
}
