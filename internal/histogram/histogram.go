// Package histogram counts values in buckets an eighth of an octave wide, without locks: quantiles are right to about
// 6 %, from a nanosecond to centuries, in 4 KiB.
package histogram

import (
	"math"
	"math/bits"
	"sync/atomic"
)

const (
	octave  = 8 // buckets
	buckets = octave * 64
)

// A Histogram counts values. Its zero value has counted none; its methods may be called concurrently.
type Histogram struct {
	counts [buckets]atomic.Uint64
	sum    atomic.Uint64
}

// Add counts a value.
func (h *Histogram) Add(v uint64) {
	h.counts[bucketOf(v)].Add(1)
	h.sum.Add(v)
}

// Values below octave have a bucket each.
func bucketOf(v uint64) int {
	if v < octave {
		return int(v)
	}
	exponent := bits.Len64(v) - 1
	return octave*(exponent-2) + int(v>>(exponent-3))&(octave-1)
}

// bounds returns the values of a bucket: from first up to, but not including, end.
func bounds(bucket int) (first, end float64) {
	if bucket < octave {
		return float64(bucket), float64(bucket + 1)
	}
	step := math.Ldexp(1, bucket/octave-1)
	first = float64(octave+bucket%octave) * step
	return first, first + step
}

// Snapshot returns the counts as they stand. Values that are being added may be in part of it.
func (h *Histogram) Snapshot() *Snapshot {
	s := &Snapshot{Sum: h.sum.Load()}
	for i := range h.counts {
		s.counts[i] = h.counts[i].Load()
		s.Count += s.counts[i]
	}
	return s
}

// A Snapshot is the counts of a Histogram at some time.
type Snapshot struct {
	Count  uint64
	Sum    uint64
	counts [buckets]uint64
}

// Quantile returns a value that the share q (0 to 1) of all is not above; 0 if there are none.
func (s *Snapshot) Quantile(q float64) float64 {
	if s.Count == 0 {
		return 0
	}
	rank := max(uint64(math.Ceil(q*float64(s.Count))), 1)
	below := uint64(0)
	for i, n := range s.counts {
		below += n
		if below >= rank {
			first, end := bounds(i)
			if i < octave {
				return first
			}
			return (first + end) / 2
		}
	}
	return 0 // not reached
}

// A Bucket is how many values were above the bucket before it, and at or below UpTo.
type Bucket struct {
	UpTo  float64
	Count uint64
}

// Buckets returns the buckets that are not empty, in ascending order, with their bounds multiplied by scale.
func (s *Snapshot) Buckets(scale float64) []Bucket {
	var all []Bucket
	for i, n := range s.counts {
		if n > 0 {
			_, end := bounds(i)
			if i < 2*octave { // of one whole number
				end--
			}
			all = append(all, Bucket{end * scale, n})
		}
	}
	return all
}
