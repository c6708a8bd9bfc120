// Package average smooths measurements: costs and latencies that routing depends on. It knows numbers only.
package average

import (
	"math"
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
