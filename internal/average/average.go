// Package average smooths measurements: costs and latencies that routing depends on. It knows numbers only.
package average

import (
	"math"
	"sync"
	"sync/atomic"
)

// Weight is the share of each new value in an Average.
const Weight = 1.0 / 16

// outlier is how many times the average a value may be at most: a goroutine that lost its processor
// for a while must not pass for a slow device.
const outlier = 8

// An Average is an exponentially weighted moving average of positive values, such as costs. The zero value has seen none; the first value
// stands as it is, and later ones that lie far above the average count as far as a bound. It may be used concurrently, and
// allocates nothing.
type Average struct{ bits atomic.Uint64 }

// Add takes a value in.
func (a *Average) Add(v float64) {
	for {
		old := a.bits.Load()
		next := v
		if was := math.Float64frombits(old); old != 0 {
			next = was + (min(v, outlier*was)-was)*Weight
		}
		next = max(next, math.SmallestNonzeroFloat64)
		if a.bits.CompareAndSwap(old, math.Float64bits(next)) {
			return
		}
	}
}

// Value returns the average, 0 if nothing was added.
func (a *Average) Value() float64 { return math.Float64frombits(a.bits.Load()) }

// A Level is the average of something that begins at zero and may be zero, such as a load. It may be used concurrently, and
// allocates nothing.
type Level struct{ bits atomic.Uint64 }

// Add takes a value in and returns the new average.
func (l *Level) Add(v float64) float64 {
	for {
		old := l.bits.Load()
		was := math.Float64frombits(old)
		next := was + (v-was)*Weight
		if l.bits.CompareAndSwap(old, math.Float64bits(next)) {
			return next
		}
	}
}

// Value returns the average.
func (l *Level) Value() float64 { return math.Float64frombits(l.bits.Load()) }

// A Line is the straight line nearest to the latest points: what something of size x takes. The zero value has seen none. It may be used
// concurrently; reading takes no lock, and nothing is allocated.
type Line struct {
	mu              sync.Mutex
	n, x, y, xx, xy float64 // decaying sums

	base, slope, mean atomic.Uint64
}

// leastSpread is how far, by its square and in proportion, sizes must lie apart to tell a slope.
const leastSpread = 0.01

// Add takes a point in. Values far above the average count as far as a bound.
func (l *Line) Add(x, y float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n > 0 {
		base, slope := l.Value()
		y = min(y, outlier*max(base+slope*x, l.Mean()))
	}
	const keep = 1 - Weight
	l.n, l.x, l.y = keep*l.n+1, keep*l.x+x, keep*l.y+y
	l.xx, l.xy = keep*l.xx+x*x, keep*l.xy+x*y
	meanX, meanY := l.x/l.n, l.y/l.n
	_, slope := l.Value()
	if spread := l.xx/l.n - meanX*meanX; spread > leastSpread*meanX*meanX {
		slope = max((l.xy/l.n-meanX*meanY)/spread, 0)
	}
	slope = min(slope, meanY/meanX) // the line does not begin below zero
	l.slope.Store(math.Float64bits(slope))
	l.base.Store(math.Float64bits(meanY - slope*meanX))
	l.mean.Store(math.Float64bits(meanY))
}

// Value returns the line, base + slope * x, neither of them negative; zeros if nothing was added. While all sizes are the same the slope stays
// what it was.
func (l *Line) Value() (base, slope float64) {
	return math.Float64frombits(l.base.Load()), math.Float64frombits(l.slope.Load())
}

// Mean returns the average of y, 0 if nothing was added.
func (l *Line) Mean() float64 { return math.Float64frombits(l.mean.Load()) }
