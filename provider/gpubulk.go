//go:build !nogpu

package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ctrutls/ctrutls/gpu"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// pin implements engine.
func (e *gpuEngine) pin(n int) (*Pinned, error) {
	p, err := e.gpu.AllocPinned(n)
	if err != nil {
		return nil, fmt.Errorf("provider: %w", err)
	}
	return &Pinned{Bytes: p.Bytes, free: p.Free}, nil
}

// install implements engine.
func (e *gpuEngine) install(k *BulkKeys) error {
	kind := e.kinds[bulkOperations[k.operation]][k.scheme]
	if kind == nil {
		return nil
	}
	table, err := e.gpu.NewTable(kind, k.keys)
	if err != nil {
		return fmt.Errorf("provider: %w", err)
	}
	k.table = table
	return nil
}

// bulk implements engine.
func (e *gpuEngine) bulk(ctx context.Context, b *Bulk, s *seeder) (bulkCounts, error) {
	kind := e.kinds[bulkOperations[b.Operation]][b.Scheme]
	if kind == nil {
		return e.cpu.bulk(ctx, b, s)
	}
	c := newChecker(e, b)
	job := &gpu.Job{Kind: kind, Rows: b.Rows, Input: b.Input, Output: b.Output, Status: b.Status, Index: b.Index, Before: s.await, After: c.chunk}
	if b.Keys != nil {
		job.Table = b.Keys.table.(*gpu.Table)
	}
	pending, err := e.gpu.Run(ctx, job)
	c.stop()
	switch {
	case errors.Is(err, gpu.ErrLost):
		return bulkCounts{}, ErrMemoryLost
	case err != nil:
		return bulkCounts{}, fmt.Errorf("provider: %w", err)
	case c.wrong.Load():
		e.faulted.Add(uint64(b.Rows))
		return e.cpu.bulk(ctx, b, s)
	case pending == 0:
		return bulkCounts{byGPU: b.Rows, invalid: int(c.invalid.Load())}, nil
	}
	e.faulted.Add(uint64(pending))
	invalid, err := e.cpu.rows(ctx, b, s, func(i int) bool { return b.status(i) == gpu.StatusPending })
	return bulkCounts{byGPU: b.Rows - pending, invalid: int(c.invalid.Load()) + invalid}, err
}

// A checker looks at each chunk that a device has computed, and computes a share of
// its rows again, on processors of its own.
type checker struct {
	engine  *gpuEngine
	bulk    *Bulk
	samples chan sample
	running sync.WaitGroup
	invalid atomic.Int64 // rows with an invalid key, by the devices' word
	wrong   atomic.Bool
}

// A sample is rows to check, at most sampleRows, and the device that made them.
type sample struct {
	rows   []int
	device int
}

// sampleRows is how many keys the CPU makes best at once, which without company cost
// eight times as much.
const sampleRows = ctruprime.MaxKeyGroup

func newChecker(e *gpuEngine, b *Bulk) *checker {
	n := max(runtime.GOMAXPROCS(0)/2, 1)
	c := &checker{engine: e, bulk: b, samples: make(chan sample, 2*n)}
	for range n {
		c.running.Go(func() {
			for s := range c.samples {
				c.check(s)
			}
		})
	}
	return c
}

func (c *checker) stop() {
	close(c.samples)
	c.running.Wait()
}

// chunk picks rows of a chunk that a device has computed: so that every so many
// results of all are checked, and all that are said to have an invalid key, for
// which the device's word alone does not count.
func (c *checker) chunk(first, n, device int) {
	e := c.engine
	picked := sample{device: device}
	pick := func(row int) {
		picked.rows = append(picked.rows, row)
		if len(picked.rows) == sampleRows {
			c.samples <- picked
			picked.rows = nil
		}
	}
	end := e.results.Add(uint64(n))
	if e.every != 0 {
		start := end - uint64(n)
		for at := start + e.every - start%e.every; at <= end; at += e.every {
			pick(first + int(at-start) - 1)
		}
	}
	if !allZero(c.bulk.Status[bulkStatusSize*first : bulkStatusSize*(first+n)]) {
		for i := first; i < first+n; i++ {
			if c.bulk.status(i) != BulkDone {
				c.invalid.Add(1)
				pick(i)
			}
		}
	}
	if len(picked.rows) > 0 {
		c.samples <- picked
	}
}

// zeros is what statuses are compared with; they are none of them secret.
var zeros [1 << 16]byte

// allZero is fast where almost all are: it is between a device and its next chunk.
func allZero(b []byte) bool {
	for ; len(b) > len(zeros); b = b[len(zeros):] {
		if !bytes.Equal(b[:len(zeros)], zeros[:]) {
			return false
		}
	}
	return bytes.Equal(b, zeros[:len(b)])
}

// check computes rows again and compares.
func (c *checker) check(s sample) {
	e, b := c.engine, c.bulk
	e.checked.Add(uint64(len(s.rows)))
	again := make([]request, len(s.rows))
	for j, i := range s.rows {
		again[j] = b.request(i)
		again[j].out = make([]byte, len(again[j].out))
	}
	for _, piece := range cut(again) {
		e.cpu.piece(context.Background(), piece)
	}
	for j, i := range s.rows {
		r := &again[j]
		if r.err != nil {
			clear(r.out)
		}
		invalid := b.status(i) != BulkDone
		if invalid != (r.err != nil) || !bytes.Equal(r.out, row(b.Output, b.OutputSize(), i)) {
			c.refuse(s.device)
		}
		clear(r.out)
	}
}

// refuse takes note of a wrong row.
func (c *checker) refuse(device int) {
	e, b := c.engine, c.bulk
	if c.wrong.CompareAndSwap(false, true) {
		e.mismatches.Add(1)
	}
	e.gpu.Refuse(device, fmt.Errorf("bulk %s of %s", bulkOperations[b.Operation], b.Scheme.Name()))
}
