package gpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// A Job is one operation on many rows, which lie one after another in memory of AllocPinned.
type Job struct {
	Kind *Kind
	Rows int
	// Input has Rows times Kind.InputSize bytes, or less the key's where there is a Table.
	Input []byte
	// Output has Rows times Kind.OutputSize bytes.
	Output []byte
	// Status has four bytes a row, a little-endian uint32: 0, 1 where the row's key is invalid and its output zero, or StatusPending where no device
	// has come to it.
	Status []byte
	// Table has the keys, if they are not in the input; nil if they are.
	Table *Table
	// Index has four bytes a row, if a Table for Decaps has the keys: a little-endian uint32, the number of the row's key.
	Index []byte
	// Before, unless nil, is called before rows first to first+n-1 are read, and may fill them; After when their results are there. Each is called once for
	// each row that is tried, in any order, by several goroutines at once, and holds a device up while it runs.
	Before func(first, n int)
	After  func(first, n, device int)
}

// StatusPending in a Job's Status marks a row that no device has computed.
const StatusPending = 1<<32 - 1

// ErrLost is what Run reports when a device hangs with the job's memory in its hands: it may still write to it. The results cannot be relied
// on, and the memory must not be used for anything else as long as the process lives. Before and After are not called any more.
var ErrLost = errors.New("gpu: the device hangs and may still write to the job's memory")

// rowSizes returns the bytes of the job's rows.
func (j *Job) rowSizes() (input, output int) {
	return j.Kind.kem.set.InputSize(j.Kind.kem.operation, j.Table != nil), j.Kind.output
}

// check says what is wrong with a job.
func (j *Job) check(e *Engine) error {
	if j.Kind == nil || j.Rows < 1 {
		return fmt.Errorf("gpu: a Job needs a Kind and a row at least")
	}
	if j.Kind.kem == nil {
		return fmt.Errorf("gpu: there are no Jobs of %v, only of a KEM's operations", j.Kind)
	}
	if !slices.Contains(e.kinds, j.Kind) {
		return fmt.Errorf("gpu: a Job of another engine's %v; Engine.Kind gives this one's", j.Kind)
	}
	if j.Table != nil && j.Table.kind != j.Kind {
		return fmt.Errorf("gpu: a Job of %v with a Table for %v", j.Kind, j.Table.kind)
	}
	if j.Table != nil && j.Table.closed.Load() {
		return errors.New("gpu: a Job with a Table that is closed")
	}
	input, output := j.rowSizes()
	index := 0
	if j.Table != nil && j.Kind.operation == Decaps {
		index = indexSize
	}
	for _, b := range []struct {
		name  string
		bytes []byte
		size  int
	}{{"Input", j.Input, input}, {"Output", j.Output, output}, {"Status", j.Status, statusSize}, {"Index", j.Index, index}} {
		if len(b.bytes) != j.Rows*b.size {
			return fmt.Errorf("gpu: a Job's %s has %d bytes, want %d for each of %d rows", b.name, len(b.bytes), b.size, j.Rows)
		}
		if !isPinned(b.bytes) {
			return fmt.Errorf("gpu: a Job's %s is not pinned memory; AllocPinned makes some", b.name)
		}
	}
	return nil
}

// A run is a job under way: its devices take the next chunk as they come free.
type run struct {
	Job   // a copy: a lane that Run gives up may look at it later
	ctx   context.Context
	chunk int           // rows
	todo  []int         // the chunks that are not done; set while no device is at work
	next  atomic.Int64  // which of todo is to be taken next
	done  []atomic.Bool // by chunk
	lost  atomic.Bool   // a device hangs with some of the memory in its hands
}

func newRun(ctx context.Context, j *Job, chunk int) *run {
	return &run{Job: *j, ctx: ctx, chunk: chunk, done: make([]atomic.Bool, (j.Rows+chunk-1)/chunk)}
}

// remains makes the chunks that are not done those to do, and says whether there are any that somebody waits for. No device may be at work.
func (r *run) remains() bool {
	r.todo = r.todo[:0]
	for c := range r.done {
		if !r.done[c].Load() {
			r.todo = append(r.todo, c)
		}
	}
	r.next.Store(0)
	return len(r.todo) > 0 && r.ctx.Err() == nil
}

// claim takes the next rows; n is 0 when none are left, or nobody waits for them any more.
func (r *run) claim() (first, n int) {
	i := int(r.next.Add(1)) - 1
	if i >= len(r.todo) || r.ctx.Err() != nil || r.lost.Load() {
		return 0, 0
	}
	return r.rows(r.todo[i])
}

// rows returns the rows of a chunk.
func (r *run) rows(chunk int) (first, n int) {
	first = chunk * r.chunk
	return first, min(r.chunk, r.Rows-first)
}

// finished says that the results of the chunk that begins with row first are there.
func (r *run) finished(first int) { r.done[first/r.chunk].Store(true) }

// pend marks the rows that are not computed and leaves nothing in their outputs, and counts them. No device may be at work any more.
func (r *run) pend() (pending int) {
	for c := range r.done {
		if r.done[c].Load() {
			continue
		}
		first, n := r.rows(c)
		pending += n
		for i := first; i < first+n; i++ {
			binary.LittleEndian.PutUint32(r.Status[statusSize*i:], StatusPending)
		}
		clear(r.Output[first*r.Kind.output : (first+n)*r.Kind.output])
	}
	return pending
}

// leastChunk is how few rows a chunk may have for the sake of overlapping copies: smaller ones leave a device idle.
var leastChunk = 1024

// Run runs a job on all devices that are open and returns when they are done with it; several Jobs take turns, for which they wait no longer than their
// contexts last. Where a device fails the others do its rows too. That none can is
// no error: rows are left with StatusPending and counted, to be computed without a device. The error is about the job itself, the context's cause, or ErrLost,
// after which, and after an error about the job, no row has a status.
//
// What Run does for each row beside what the devices do would slow them down: it touches no row that a device has computed.
func (e *Engine) Run(ctx context.Context, j *Job) (pending int, err error) {
	if err := j.check(e); err != nil {
		return 0, err
	}
	shares := 4 * max(e.openDevices(), 1)
	r := newRun(ctx, j, min(e.config.Chunk, max(leastChunk, (j.Rows+shares-1)/shares)))
	// What a device leaves when it fails the others do in another round. A round for each that can fail is enough.
	for range e.devices {
		if !r.remains() {
			break
		}
		sessions := e.enterAll()
		if len(sessions) == 0 {
			break
		}
		if !serveAll(r, sessions) {
			return 0, ErrLost
		}
	}
	return r.pend(), context.Cause(ctx)
}

// openDevices counts the devices that take rows.
func (e *Engine) openDevices() (n int) {
	for _, d := range e.devices {
		if d.session.Load() != nil {
			n++
		}
	}
	return n
}

// enterAll returns the sessions of the devices that are open, entered.
func (e *Engine) enterAll() (sessions []*session) {
	for _, d := range e.devices {
		if s := d.session.Load(); s != nil && s.enter() {
			sessions = append(sessions, s)
		}
	}
	return sessions
}

// serveAll has all devices take chunks until none are left; it reports false if one hangs with the job's memory in its hands. A device that hangs without
// has left its rows to the others.
func serveAll(r *run, sessions []*session) bool {
	var wg sync.WaitGroup
	for _, s := range sessions {
		done := make(chan struct{})
		go func() {
			defer s.busy.Done()
			defer close(done)
			s.lane.serve(r)
		}()
		wg.Go(func() {
			select {
			case <-done:
				return
			case <-s.hung:
			}
			switch worked, held := s.lane.giveUp(r); {
			case held:
				r.lost.Store(true)
			case !worked: // it was not its turn, or it is done
				<-done
			}
		})
	}
	wg.Wait()
	return !r.lost.Load()
}
