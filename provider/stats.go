package provider

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/ctrutls/ctrutls/internal/histogram"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// Stats is a snapshot of a Provider's counters. They only grow, but for what
// describes a state: a pool's Level, a device's, and the routing.
type Stats struct {
	Engine     Engine           // what is there: EngineAuto without a GPU has become EngineCPU
	Operations []OperationStats // every parameter set and operation, in a fixed order
	Signatures OperationStats   // of Signers; those that crypto/ecdsa made at once are not counted
	KeyPools   []KeyPoolStats   // one a parameter set; none without pools
	GPU        *GPUStats        // nil without a GPU
	Routing    *RoutingStats    // nil but for EngineAuto with a GPU
}

// OperationStats counts one operation of one parameter set, or signatures.
type OperationStats struct {
	Scheme     string // "CTRU-Prime-761", or "ECDSA-P-256"
	Operation  string // "generate-key", "encapsulate", "decapsulate", "server-exchange", "client-finish", "sign"
	Served     uint64 // results computed; of generate-key those for the pool too, whose HandedOut says how many were used
	ByGPU      uint64 // those of them that a GPU made
	PeerFaults uint64 // refused because of what the peer sent
	Failures   uint64 // ended by the context, by Close, by a key of the caller's or by a fault of the engine
}

// KeyPoolStats describes the pool of one parameter set.
type KeyPoolStats struct {
	Scheme    string
	Level     int    // keys ready now
	Size      int    // keys held at most
	Generated uint64 // keys made
	HandedOut uint64 // keys given to callers, each once
	Waits     uint64 // calls that found the pool empty
}

// GPUStats counts what the GPUs did, and what the CPU did in their place.
type GPUStats struct {
	Devices []DeviceStats

	Served uint64 // operations that a device carried out
	// Operations meant for a device that the CPU carried out, because
	Full        uint64 // all batches were full, and stayed so,
	Unavailable uint64 // no device was open,
	Late        uint64 // the batch took longer than GPU.MaxWait,
	Faulted     uint64 // the device failed.

	Checked    uint64 // results that were computed again on the CPU
	Mismatches uint64 // those of them that were wrong; each closes a device for good
}

// Bucket is how many values were above the bucket before it, and at or below
// UpTo.
type Bucket = histogram.Bucket

// DeviceStats is a GPU's description, its state and its counters.
type DeviceStats struct {
	Number            int    // as CUDA numbers devices
	Name              string // "NVIDIA H200"
	PCIBusID          string // "0000:17:00.0"
	ComputeCapability string // "9.0"
	Memory            uint64 // bytes

	// State is "open"; "stalled" while a batch is late; "reopening" after a
	// fault, until the device has been opened again; "closed", which only a
	// restart of the process changes; or "refused: wrong result", the same.
	State     string
	Since     time.Time // of the state
	LastError string    // empty if there was none

	InFlight int    // operations in batches that have not ended
	Batches  uint64 // that ended well
	Rows     uint64 // operations in them
	JobRows  uint64 // operations of Bulk
	Late     uint64 // batches that took longer than GPU.MaxWait
	Faults   uint64 // times that the device failed, hangs among them
	Hangs    uint64
	Resets   uint64 // of the CUDA context
	Reopened uint64 // times that it was opened again

	// Of a batch, from pinned memory to pinned memory.
	LatencyP50, LatencyP99 time.Duration
	LatencySum             time.Duration // of all batches
	Latencies              []Bucket      // of all batches, in seconds
	Sizes                  []Bucket      // the same, in operations

	// Of all processes, as NVML has them; nil where it has not.
	MemoryUsed  *uint64  // bytes
	Utilization *float64 // the share of the latest second or less in which a kernel ran
	Temperature *float64 // degrees Celsius
	Power       *float64 // watts
}

// RoutingStats says how EngineAuto decides now: operations go to a GPU while Load is
// at least one processor and its batches are worth it.
type RoutingStats struct {
	// Load is how many processors key exchanges would keep busy if the CPU did
	// them all, averaged over the latest calls.
	Load   float64
	Routes []RouteStats // of the parameter sets and operations that were measured, in a fixed order
}

// RouteStats is what one operation was measured to take.
type RouteStats struct {
	Scheme, Operation string
	CPUCost           time.Duration // of one, on a CPU
	BatchLatency      time.Duration // of a batch, on a GPU; by its size it is
	BatchBase         time.Duration // so much and
	BatchEach         time.Duration // so much for each operation
	// Operations in flight from which on the GPU gets them; 0 if it does not get
	// any because the CPU is faster, however many there are.
	Threshold float64
}

// counters are the counts of one parameter set.
type counters [operations]counts

// counts are those of one operation.
type counts struct{ served, byGPU, peerFaults, failures atomic.Uint64 }

// counts returns where a request is counted.
func (p *Provider) counts(r *request) *counts {
	if r.op == opSign {
		return &p.signing
	}
	return &p.stats[r.scheme][r.op]
}

func (n *counts) count(err error) {
	if err == nil {
		n.served.Add(1)
		return
	}
	var peer *PeerError // on the heap, because of As
	if errors.As(err, &peer) {
		n.peerFaults.Add(1)
	} else {
		n.failures.Add(1)
	}
}

// Stats returns the counters as they stand. Calls in flight may be counted in
// part.
func (p *Provider) Stats() Stats {
	st := Stats{Engine: Engine(p.engine.name())}
	p.engine.stats(&st)
	for _, s := range p.schemes {
		for op := range operations {
			st.Operations = append(st.Operations, p.stats[s][op].stats(s.Name(), op))
		}
		if k := p.pools[s]; k != nil {
			st.KeyPools = append(st.KeyPools, k.stats(s))
		}
	}
	st.Signatures = p.signing.stats(schemeName(&request{op: opSign}), opSign)
	return st
}

// schemeName is what Stats calls what a request is of.
func schemeName(r *request) string {
	if r.op == opSign {
		return "ECDSA-P-256"
	}
	return r.scheme.Name()
}

func (n *counts) stats(scheme string, op operation) OperationStats {
	return OperationStats{Scheme: scheme, Operation: op.String(),
		Served: n.served.Load(), ByGPU: n.byGPU.Load(), PeerFaults: n.peerFaults.Load(), Failures: n.failures.Load()}
}

func (k *keyPool) stats(s *ctruprime.Scheme) KeyPoolStats {
	return KeyPoolStats{Scheme: s.Name(), Level: k.level(), Size: k.size,
		Generated: k.generated.Load(), HandedOut: k.handedOut.Load(), Waits: k.waits.Load()}
}
