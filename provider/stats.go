package provider

import (
	"errors"
	"sync/atomic"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// Stats is a snapshot of a Provider's counters. They only grow, but for a
// pool's Level.
type Stats struct {
	Engine     string
	Operations []OperationStats // every parameter set and operation, in a fixed order
	KeyPools   []KeyPoolStats   // one a parameter set; none without pools
}

// OperationStats counts one operation of one parameter set.
type OperationStats struct {
	Scheme     string // "CTRU-Prime-761"
	Operation  string // "generate-key", "encapsulate", "decapsulate", "server-exchange", "client-finish"
	Served     uint64 // results handed out
	PeerFaults uint64 // refused because of what the peer sent
	Failures   uint64 // ended by the context, by Close or by a fault of the engine
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

// counters are the counts of one parameter set.
type counters [operations]struct{ served, peerFaults, failures atomic.Uint64 }

func (c *counters) count(r *request) {
	n := &c[r.op]
	var peer *PeerError
	switch {
	case r.err == nil:
		n.served.Add(1)
	case errors.As(r.err, &peer):
		n.peerFaults.Add(1)
	default:
		n.failures.Add(1)
	}
}

// Stats returns the counters as they stand. Calls in flight may be counted in
// part.
func (p *Provider) Stats() Stats {
	st := Stats{Engine: p.engine.name()}
	for _, s := range p.schemes {
		for op := range operations {
			n := &p.stats[s][op]
			st.Operations = append(st.Operations, OperationStats{Scheme: s.Name(), Operation: op.String(),
				Served: n.served.Load(), PeerFaults: n.peerFaults.Load(), Failures: n.failures.Load()})
		}
		if k := p.pools[s]; k != nil {
			st.KeyPools = append(st.KeyPools, k.stats(s))
		}
	}
	return st
}

func (k *keyPool) stats(s *ctruprime.Scheme) KeyPoolStats {
	return KeyPoolStats{Scheme: s.Name(), Level: k.level(), Size: k.size,
		Generated: k.generated.Load(), HandedOut: k.handedOut.Load(), Waits: k.waits.Load()}
}
