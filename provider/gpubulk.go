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

// A sample is a row to check and the device that made it.
type sample struct{ row, device int }

func newChecker(e *gpuEngine, b *Bulk) *checker {
	n := max(runtime.GOMAXPROCS(0)/2, 1)
	c := &checker{engine: e, bulk: b, samples: make(chan sample, 64*n)}
	for range n {
		c.running.Go(func() {
			for s := range c.samples {
				c.row(s.row, s.device)
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
	end := e.results.Add(uint64(n))
	if e.every != 0 {
		start := end - uint64(n)
		for at := start + e.every - start%e.every; at <= end; at += e.every {
			c.samples <- sample{first + int(at-start) - 1, device}
		}
	}
	if allZero(c.bulk.Status[bulkStatusSize*first : bulkStatusSize*(first+n)]) {
		return
	}
	for i := first; i < first+n; i++ {
		if c.bulk.status(i) != BulkDone {
			c.invalid.Add(1)
			c.samples <- sample{i, device}
		}
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

// row computes a row again and compares.
func (c *checker) row(i, device int) {
	e, b := c.engine, c.bulk
	e.checked.Add(1)
	made := b.request(i)
	again := made
	again.out = make([]byte, len(made.out))
	defer clear(again.out)
	again.err = encapsulation(&again)
	if again.err != nil {
		clear(again.out)
	}
	if invalid := b.status(i) != BulkDone; invalid == (again.err != nil) && bytes.Equal(again.out, made.out) {
		return
	}
	if c.wrong.CompareAndSwap(false, true) {
		e.mismatches.Add(1)
	}
	e.gpu.Refuse(device, fmt.Errorf("bulk %s of %s", made.op, made.scheme.Name()))
}
