package backend

import (
	"hash/fnv"
	"math/bits"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
)

// Balance is how a Pool chooses among backends.
type Balance int

const (
	RoundRobin       Balance = iota
	LeastConnections         // the fewest requests and connections under way
	Hash                     // equal keys to the same backend, as long as its load is bearable
)

// Key says what Hash goes by: a header's or cookie's name, or neither for the
// client's address. A request without that header or cookie goes by its
// client's address.
type Key struct{ Header, Cookie string }

// of returns a request's key as a number.
func (k Key) of(r *http.Request) uint64 {
	if k.Header != "" {
		if value := r.Header.Get(k.Header); value != "" {
			return hashOf(value)
		}
	}
	if k.Cookie != "" {
		if c, err := r.Cookie(k.Cookie); err == nil && c.Value != "" {
			return hashOf(c.Value)
		}
	}
	return keyOfSource(r.RemoteAddr)
}

// keyOfSource is the key of a client at an address with a port.
func keyOfSource(address string) uint64 {
	if colon := strings.LastIndexByte(address, ':'); colon >= 0 {
		address = address[:colon]
	}
	return hashOf(address)
}

// hashOf is the same in every process: several proxies agree.
func hashOf(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// balancer chooses from a set. It returns nil if all are in skip.
type balancer interface {
	next(set []*backend, key uint64, skip []*backend) *backend
}

func newBalancer(b Balance) balancer {
	switch b {
	case LeastConnections:
		return new(leastConnections)
	case Hash:
		return rendezvous{}
	}
	return new(roundRobin)
}

type roundRobin struct{ turn atomic.Uint64 }

func (rr *roundRobin) next(set []*backend, _ uint64, skip []*backend) *backend {
	return after(set, rr.turn.Add(1)-1, skip)
}

// after returns the first from a place on, in a circle, that is not in skip.
func after(set []*backend, place uint64, skip []*backend) *backend {
	for i := range uint64(len(set)) {
		if b := set[(place+i)%uint64(len(set))]; !slices.Contains(skip, b) {
			return b
		}
	}
	return nil
}

// leastConnections takes turns among those that have equally little to do.
type leastConnections struct{ turn atomic.Uint64 }

func (lc *leastConnections) next(set []*backend, _ uint64, skip []*backend) *backend {
	start := lc.turn.Add(1) - 1
	var best *backend
	var least int64
	for i := range uint64(len(set)) {
		b := set[(start+i)%uint64(len(set))]
		if load := b.underway.Load(); (best == nil || load < least) && !slices.Contains(skip, b) {
			best, least = b, load
		}
	}
	return best
}

// rendezvous gives each pair of key and backend a weight and takes the
// heaviest, so that a backend that comes or goes moves only its own keys
// (Thaler and Ravishankar, "Using name-based mappings to increase hit rates",
// 1998). Backends with more than 5/4 of the mean load are passed over (Mirrokni,
// Thorup and Zadimoghaddam, "Consistent hashing with bounded loads", 2018).
type rendezvous struct{}

func (rendezvous) next(set []*backend, key uint64, skip []*backend) *backend {
	bound := loadBound(set)
	var best, loaded *backend
	var bestWeight, loadedWeight uint64
	for _, b := range set {
		if slices.Contains(skip, b) {
			continue
		}
		w := weight(key, b.seed)
		if b.underway.Load() < bound {
			if best == nil || w > bestWeight {
				best, bestWeight = b, w
			}
		} else if loaded == nil || w > loadedWeight {
			loaded, loadedWeight = b, w
		}
	}
	if best == nil {
		return loaded
	}
	return best
}

// loadBound is 5/4 of the mean load with one more request, rounded up.
func loadBound(set []*backend) int64 {
	var all int64 = 1
	for _, b := range set {
		all += b.underway.Load()
	}
	n := int64(len(set))
	return (5*all + 4*n - 1) / (4 * n)
}

// weight mixes two hashes into one whose bits all depend on all of theirs.
func weight(key, seed uint64) uint64 {
	const odd1, odd2 = 0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9
	high, low := bits.Mul64(key^odd1, seed^odd2)
	high, low = bits.Mul64(high^low^odd2, odd1)
	return high ^ low
}
