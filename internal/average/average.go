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

// An Average is an exponentially weighted moving average of positive values. The zero value has seen none. It may be used
// concurrently, and allocates nothing.
type Average struct{ bits atomic.Uint64 }

// Add takes a value in. Values far above the average count as far as a bound; the first one stands as it is.
func (a *Average) Add(v float64) {
	for {
		old := a.bits.Load()
		next := v
		if was := math.Float64frombits(old); old != 0 {
			next = was + (min(v, outlier*was)-was)*Weight
		}
		if next <= 0 {
			next = math.SmallestNonzeroFloat64
		}
		if a.bits.CompareAndSwap(old, math.Float64bits(next)) {
			return
		}
	}
}

// Value returns the average, 0 if nothing was added.
func (a *Average) Value() float64 { return math.Float64frombits(a.bits.Load()) }
