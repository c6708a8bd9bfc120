package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/ctrutls/ctrutls/provider"
)

// both is one histogram in its two forms, of which a scraper takes the one that
// it asks for.
type both struct{ classic, native prometheus.Metric }

// Desc implements prometheus.Metric.
func (b both) Desc() *prometheus.Desc { return b.native.Desc() }

// Write implements prometheus.Metric.
func (b both) Write(m *dto.Metric) error {
	var classic dto.Metric
	if err := b.classic.Write(&classic); err != nil {
		return err
	}
	if err := b.native.Write(m); err != nil {
		return err
	}
	m.Histogram.Bucket = classic.Histogram.Bucket
	return nil
}

// nativeSchema makes eight buckets an octave, which is what the provider counts in.
const nativeSchema = 3

// histogram exports what was counted in buckets; upTo are those of the classic form.
func (c collection) histogram(d *prometheus.Desc, counted []provider.Bucket, sum float64, upTo []float64, labels ...string) {
	classic, native := map[float64]uint64{}, map[int]int64{}
	for _, bound := range upTo {
		classic[bound] = 0
	}
	count, zeros := uint64(0), uint64(0)
	for _, b := range counted {
		count += b.Count
		for _, bound := range upTo {
			if b.UpTo <= bound {
				classic[bound] += b.Count
			}
		}
		if b.UpTo <= 0 {
			zeros += b.Count
			continue
		}
		native[int(math.Ceil(math.Log2(b.UpTo)*(1<<nativeSchema)))] += int64(b.Count)
	}
	const zeroThreshold = 1e-128
	n, err := prometheus.NewConstNativeHistogram(d, count, sum, native, nil, zeros, nativeSchema, zeroThreshold, time.Time{}, labels...)
	if err != nil {
		c.out <- prometheus.NewInvalidMetric(d, err)
		return
	}
	c.out <- both{prometheus.MustNewConstHistogram(d, count, sum, classic, labels...), n}
}
