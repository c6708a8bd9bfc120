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
func (e *gpuEngine) bulk(ctx context.Context, b *Bulk, s *seeder) (byGPU int, err error) {
	kind := e.kinds[bulkOperations[b.Operation]][b.Scheme]
	if kind == nil {
		return e.cpu.bulk(ctx, b, s)
	}
	c := newChecker(e, b)
	job := &gpu.Job{Kind: kind, Rows: b.Rows, Input: b.Input, Output: b.Output, Status: b.Status, Index: b.Index, Before: s.await, After: c.sample}
	if b.Keys != nil {
		job.Table = b.Keys.table.(*gpu.Table)
	}
	err = e.gpu.Run(ctx, job)
	c.stop()
	switch {
	case errors.Is(err, gpu.ErrLost):
		return 0, ErrMemoryLost
	case err != nil:
		return 0, fmt.Errorf("provider: %w", err)
	}
	for i := range b.Rows {
		if b.status(i) == BulkInvalidKey { // the device's word alone does not count
			c.row(i, gpuOfNone)
		}
	}
	wrong := c.wrong.Load()
	wanted := func(i int) bool { return wrong || b.status(i) == gpu.StatusPending }
	left := 0
	for i := range b.Rows {
		if wanted(i) {
			left++
		}
	}
	e.faulted.Add(uint64(left))
	return b.Rows - left, e.cpu.rows(ctx, b, s, wanted)
}

// gpuOfNone is a device's number where it is not known which one made a row.
const gpuOfNone = -1

// A checker computes a share of a Bulk's rows again, on processors of its own.
type checker struct {
	engine  *gpuEngine
	bulk    *Bulk
	samples chan sample
	running sync.WaitGroup
	wrong   atomic.Bool
	devices sync.Map // that took part
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

// sample picks rows of a chunk that a device has computed, so that every so many
// results of all are checked.
func (c *checker) sample(first, n, device int) {
	e := c.engine
	c.devices.Store(device, nil)
	end := e.results.Add(uint64(n))
	if e.every == 0 {
		return
	}
	start := end - uint64(n)
	for at := start + e.every - start%e.every; at <= end; at += e.every {
		c.samples <- sample{first + int(at-start) - 1, device}
	}
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
	reason := fmt.Errorf("bulk %s of %s", made.op, made.scheme.Name())
	if device != gpuOfNone {
		e.gpu.Refuse(device, reason)
		return
	}
	c.devices.Range(func(d, _ any) bool {
		e.gpu.Refuse(d.(int), reason)
		return true
	})
}
