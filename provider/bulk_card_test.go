//go:build (sim || gputest) && !nogpu

package provider

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/gpu"
	"github.com/ctrutls/ctrutls/internal/bench"
	"github.com/ctrutls/ctrutls/kernels"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// BenchmarkCardBulkStreams reports the rate of Jobs in both ways that package gpu has
// to run them, streams for each step and one stream for each chunk that is under way,
// by the rows of a chunk: medians of rounds in which each has its turn, and of the
// rounds' ratios.
func BenchmarkCardBulkStreams(b *testing.B) {
	rounds, distinct := onCardElse(7, 1), onCardElse(benchKeys, 4)
	n := (*cardBulk + distinct - 1) / distinct * distinct
	cfg := cardConfig(b)
	schemes := cardSchemes(cfg)
	s := schemes[len(schemes)/2]
	chunks := onCardElse([]int{1 << 13, 1 << 15, 1 << 16}, []int{3, 4})
	engines := make(map[int][2]*gpu.Engine)
	for _, chunk := range chunks {
		engines[chunk] = [2]*gpu.Engine{streamsEngine(b, cfg, s, chunk, false), streamsEngine(b, cfg, s, chunk, true)}
	}
	operations := []BulkOperation{BulkEncapsulate, BulkDecapsulate, BulkGenerateKeys}
	memory, err := engines[chunks[0]][0].AllocPinned(mostBytes(b, s, operations, n))
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := memory.Free(); err != nil {
			b.Error(err)
		}
	}()
	for _, op := range operations {
		b.Run(bulkOperations[op].String(), func(b *testing.B) {
			c, err := bench.NewCase(newSet(b, s), kernelOperation(op), distinct, bench.CaseOptions{Table: bulkTable(op)}, 1)
			if err != nil {
				b.Fatal(err)
			}
			rows := newJobRows(b, c, memory.Bytes, n)
			for _, chunk := range chunks {
				b.Run(fmt.Sprint(chunk), func(b *testing.B) {
					for range b.N {
						measureWays(b, engines[chunk], rows, rounds)
					}
					b.ReportMetric(0, "ns/op")
				})
			}
		})
	}
}

// streamsEngine opens an engine that runs Jobs in one of the two ways.
func streamsEngine(b *testing.B, cfg Config, s *ctruprime.Scheme, chunk int, rings bool) *gpu.Engine {
	b.Helper()
	n, err := degree(s)
	if err != nil {
		b.Fatal(err)
	}
	e, err := gpu.Open(gpu.Config{Library: cfg.GPU.Library, Devices: cfg.GPU.Devices, Sets: []int{n}, Workers: 1, Capacity: onCardElse(1024, 4),
		Chunk: chunk, RingStreams: rings, MaxWait: time.Hour, Hang: time.Hour, Logger: cfg.Logger})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.Error(err)
		}
	})
	return e
}

// A jobRows is a Job's memory, for any engine.
type jobRows struct {
	kase                         *bench.Case
	n                            int
	input, output, status, index []byte
}

// page is where each part of a jobRows begins.
const page = 4096

func pages(n int) int { return (n + page - 1) / page * page }

// mostBytes returns how many bytes newJobRows needs for n rows of any of the operations.
func mostBytes(b *testing.B, s *ctruprime.Scheme, of []BulkOperation, n int) (most int) {
	set := newSet(b, s)
	for _, op := range of {
		k := kernelOperation(op)
		most = max(most, pages(n*set.InputSize(k, bulkTable(op) > 0))+pages(n*set.OutputSize(k))+2*pages(4*n))
	}
	return most
}

// newJobRows lays n rows out in memory, the case's over and over. n is a multiple of
// the case's.
func newJobRows(b *testing.B, c *bench.Case, memory []byte, n int) *jobRows {
	r := &jobRows{kase: c, n: n}
	take := func(size int) (part []byte) {
		if pages(size) > len(memory) {
			b.Fatalf("%d bytes are missing for %d rows of %s", size-len(memory), n, c.Operation)
		}
		part, memory = memory[:size:size], memory[pages(size):]
		return part
	}
	r.input, r.output, r.status = take(n*len(c.Input)/c.N), take(n*c.Set.OutputSize(c.Operation)), take(4*n)
	fillRows(r.input, c.Input)
	if c.Index != nil {
		r.index = take(4 * n)
		fillRows(r.index, c.Index)
	}
	return r
}

// measureWays runs the same Job by one engine and by the other, in turn, and checks
// what they make of it.
func measureWays(b *testing.B, engines [2]*gpu.Engine, rows *jobRows, rounds int) {
	var jobs [2]*gpu.Job
	for i, e := range engines {
		jobs[i] = rows.job(b, e)
	}
	var rates [2][]float64
	var ratios []float64
	for round := range rounds + 1 {
		var rate [2]float64
		for i, e := range engines {
			rate[i] = rows.run(b, e, jobs[i])
		}
		if round == 0 { // it made the devices' memory
			continue
		}
		rates[0], rates[1] = append(rates[0], rate[0]), append(rates[1], rate[1])
		ratios = append(ratios, rate[1]/rate[0])
	}
	b.ReportMetric(middle(rates[0])/1e6, "steps-M/s")
	b.ReportMetric(middle(rates[1])/1e6, "rings-M/s")
	b.ReportMetric(middle(ratios), "rings/steps")
}

// job returns the Job for an engine, with the case's table if it has one.
func (r *jobRows) job(b *testing.B, e *gpu.Engine) *gpu.Job {
	b.Helper()
	op := map[kernels.Operation]gpu.Operation{kernels.KeyGen: gpu.KeyGen, kernels.Encaps: gpu.Encaps, kernels.Decaps: gpu.Decaps}[r.kase.Operation]
	k, err := e.Kind(r.kase.Set.N(), op)
	if err != nil {
		b.Fatal(err)
	}
	j := &gpu.Job{Kind: k, Rows: r.n, Input: r.input, Output: r.output, Status: r.status, Index: r.index}
	if r.kase.Table == nil {
		return j
	}
	if j.Table, err = e.NewTable(k, r.kase.Table); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := j.Table.Close(); err != nil {
			b.Error(err)
		}
	})
	return j
}

// run returns the operations a second of a Job, whose results it checks: those of the
// first chunks and of the last.
func (r *jobRows) run(b *testing.B, e *gpu.Engine, j *gpu.Job) float64 {
	b.Helper()
	clear(r.status)
	start := time.Now()
	pending, err := e.Run(b.Context(), j)
	took := time.Since(start)
	if err != nil || pending != 0 {
		b.Fatalf("%d rows are pending: %v", pending, err)
	}
	n, last := r.kase.N, r.n-r.kase.N
	size := len(r.output) / r.n
	if err := errors.Join(r.kase.Check(r.output[:n*size], r.status[:4*n]), r.kase.Check(r.output[last*size:], r.status[4*last:])); err != nil {
		b.Fatal(err)
	}
	clear(r.output[:n*size])
	clear(r.output[last*size:])
	return float64(r.n) / took.Seconds()
}

// middle returns the median.
func middle(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
