package gpu

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A histogram counts durations in buckets an eighth of an octave wide: quantiles are right to about 6 %.
type histogram struct{ buckets [8 * 64]atomic.Uint64 }

const octave = 8 // buckets

func bucketOf(d time.Duration) int {
	n := uint64(max(d, octave))
	exponent := bits.Len64(n) - 1
	return octave*exponent + int(n>>(exponent-3))&(octave-1)
}

// middle returns the duration in the middle of a bucket.
func middle(bucket int) time.Duration {
	exponent := bucket / octave
	step := uint64(1) << (exponent - 3)
	return time.Duration(uint64(octave+bucket%octave)*step + step/2)
}

func (h *histogram) add(d time.Duration) { h.buckets[bucketOf(d)].Add(1) }

// quantiles returns, for each of the ascending shares, the duration that this share of all is not above; 0 if there are none.
func (h *histogram) quantiles(shares ...float64) []time.Duration {
	var counts [len(h.buckets)]uint64
	total := uint64(0)
	for i := range h.buckets {
		counts[i] = h.buckets[i].Load()
		total += counts[i]
	}
	result := make([]time.Duration, len(shares))
	below, bucket := uint64(0), 0
	for i, share := range shares {
		rank := max(uint64(share*float64(total)), 1)
		for bucket < len(counts) && below+counts[bucket] < rank {
			below += counts[bucket]
			bucket++
		}
		if total > 0 {
			result[i] = middle(bucket)
		}
	}
	return result
}
