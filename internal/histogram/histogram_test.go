package histogram

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Every value lies within its bucket, and buckets follow one another without gaps.
func TestBuckets(t *testing.T) {
	values := []uint64{0, 1, 7, 8, 9, 15, 16, 17, 1000, 1 << 20, 1<<63 - 1, 1 << 63, math.MaxUint64}
	for range 10_000 {
		values = append(values, rand.Uint64()>>rand.IntN(64))
	}
	for _, v := range values {
		first, end := bounds(bucketOf(v))
		if f := float64(v); f < first || f > end || v < 1<<50 && f >= end || v >= octave && (end-first)/first > 1.0/octave {
			t.Errorf("%d is not in [%g, %g)", v, first, end)
		}
	}
	for i := 1; i < bucketOf(math.MaxUint64); i++ {
		_, end := bounds(i - 1)
		if first, _ := bounds(i); first != end {
			t.Errorf("bucket %d begins with %g, the one before ends with %g", i, first, end)
		}
	}
}

func TestQuantiles(t *testing.T) {
	if q := new(Histogram).Snapshot().Quantile(0.5); q != 0 {
		t.Errorf("%g of nothing", q)
	}
	var h Histogram
	var values []float64
	for range 20_000 {
		v := uint64(math.Exp(rand.Float64() * 20))
		h.Add(v)
		values = append(values, float64(v))
	}
	slices.Sort(values)
	s := h.Snapshot()
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		want := values[min(max(int(math.Ceil(q*float64(len(values)))), 1), len(values))-1]
		if got := s.Quantile(q); math.Abs(got-want) > want/octave {
			t.Errorf("quantile %g is %g, want %g", q, got, want)
		}
	}
	if s.Count != 20_000 {
		t.Errorf("%d values", s.Count)
	}
}

func TestCounts(t *testing.T) {
	var h Histogram
	for _, v := range []uint64{2, 1024, 4000, 1 << 40} {
		h.Add(v)
	}
	s := h.Snapshot()
	if s.Count != 4 || s.Sum != 2+1024+4000+1<<40 || s.Quantile(0.25) != 2 {
		t.Errorf("%d values with sum %d, quantile %g", s.Count, s.Sum, s.Quantile(0.25))
	}
	total, all := uint64(0), s.Buckets(0.5)
	for _, b := range all {
		total += b.Count
	}
	if total != 4 || all[0] != (Bucket{1, 1}) || all[1].UpTo != 576 { // 2, and 1024 in a bucket 128 wide
		t.Errorf("%v", all)
	}
}
