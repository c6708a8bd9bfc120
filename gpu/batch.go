package gpu

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
)

// A buffer is the pinned memory of one batch, and what its callers wait by.
type buffer struct {
	memory []byte
	mapped driver.DevicePtr // where kernels reach it
	beds   []bed            // by row; a Ticket waits at that of its first
}

// A batch is rows of one kind on their way through a device. It is made anew for every use of a buffer, so that whoever still
// holds an old one finds it sealed.
//
// Three things are counted down to zero by whichever goroutine comes last, without locks: rows whose input is being written, callers
// that have not left, and the two users of the buffer, callers and worker. The first two are counted from below: a batch's size is known
// only when it is sealed, and is added then. Each of the counters that every row changes has a cache line of its own, so that callers on
// different processors who are in different places do not take it from each other.
type batch struct {
	session *session
	kind    *Kind
	buffer  *buffer
	opened  time.Time

	started  time.Time     // when a worker began to run it
	took     time.Duration // until its results were there; set before done is closed, where there are some
	deadline time.Time     // by when it must have ended; set by the worker that starts it
	overdue  atomic.Bool   // the watchdog has seen that it had not

	_      line
	joined atomic.Uint64 // rows taken, and sealed
	_      line

	// Set under session.mu when the batch is sealed.
	sealed bool
	size   int // rows

	_       line
	writing atomic.Int64
	_       line
	written chan struct{} // where the last writer finds the worker; set before the size is added to writing

	over  atomic.Bool   // whoever sets it closes done
	err   error         // set before that
	done  chan struct{} // closed when there are results, or none to be had
	late  bool          // set before that: the callers gave up
	inUse atomic.Int32  // callers and worker

	morning *sleeper     // in the beds of those who need not sleep any more
	woken   atomic.Int32 // groups of callers whose waking somebody has taken on
	unwiped atomic.Bool  // outputs may hold what nobody wiped
	_       line
	leaving atomic.Int64
	_       line
}

// line keeps what stands before it and what stands after it in different cache lines.
type line [64]byte

const (
	sealedBit = 1 << 63
	countMask = 1<<32 - 1
)

// join takes up to n rows and returns the first of them and how many; none if the batch is full or sealed.
func (b *batch) join(n int) (first, got int) {
	v := b.joined.Add(uint64(n))
	if v&sealedBit != 0 {
		return 0, 0
	}
	first = int(v&countMask) - n
	return first, max(min(n, b.kind.capacity-first), 0)
}

// room returns how many rows can still join.
func (b *batch) room() int {
	v := b.joined.Load()
	if v&sealedBit != 0 {
		return 0
	}
	return max(b.kind.capacity-int(v&countMask), 0)
}

// rows returns how many rows of a batch that is not sealed are taken.
func (b *batch) rows() int {
	return min(int(b.joined.Load()&countMask), b.kind.capacity) // who finds it full has counted himself too
}

// awaitWriters returns when the input of every row of a sealed batch is written. wake has room for a token and is the worker's own.
func (b *batch) awaitWriters(wake chan struct{}) {
	b.written = wake
	if b.writing.Add(int64(b.size)) != 0 {
		<-wake
	}
}

// finish gives a sealed batch its result and wakes its callers; it reports whether it was the first to.
func (b *batch) finish(err error) bool {
	if !b.over.CompareAndSwap(false, true) {
		return false
	}
	b.err, b.late = err, err == ErrLate
	close(b.done)
	b.wake()
	b.leave(-b.size)
	return true
}

// leave counts n callers out (or, once, all of them in). The session may be freed as soon as it is vacated, so that comes last.
func (b *batch) leave(n int) {
	if b.leaving.Add(-int64(n)) == 0 {
		b.drop()
		b.session.vacate(b)
	}
}

// drop counts out a user of the buffer.
func (b *batch) drop() {
	if b.inUse.Add(-1) == 0 {
		b.session.recycle(b)
	}
}

// expire ends the callers' patience. The batch goes on its way without them.
func (b *batch) expire() {
	b.session.seal(b)
	b.session.lateBy(1) // before the callers are back and come again
	if !b.finish(ErrLate) {
		b.session.lateBy(-1)
		return
	}
	b.session.device.late.Add(1)
}

// row returns the bytes of row i of rows of that size.
func row(rows []byte, size, i int) []byte { return rows[i*size : (i+1)*size : (i+1)*size] }

// A Ticket is rows in a batch, held by one goroutine from Reserve to Release. Its rows are numbered from 0.
type Ticket struct {
	batch     *batch
	first     int
	rows      int
	submitted bool
}

// Rows returns how many rows were reserved.
func (t *Ticket) Rows() int { return t.rows }

// Input returns where the input of row i is to be written, of the kind's InputSize. It holds zeros. It must not be used after Submit.
func (t *Ticket) Input(i int) []byte {
	return row(t.batch.buffer.memory, t.batch.kind.input, t.first+i)
}

// Submit says that all inputs are written. The batch does not start without.
func (t *Ticket) Submit() {
	t.submitted = true
	if t.batch.writing.Add(-int64(t.rows)) == 0 {
		t.batch.written <- struct{}{}
	}
}

// Wait waits for the results. Its error is ErrLate, ErrFault or the context's cause, and none of them means that the batch has ended.
func (t *Ticket) Wait(ctx context.Context) error {
	if !t.batch.buffer.beds[t.first].sleep(t.batch.morning, ctx.Done()) {
		return context.Cause(ctx)
	}
	t.batch.wake()
	return t.batch.err
}

// Output returns the output of row i, of the kind's OutputSize, until Release. It is there after Wait has returned nil.
func (t *Ticket) Output(i int) []byte {
	b := t.batch
	return row(b.outputs(), b.kind.output, t.first+i)
}

// Status returns the status of row i: 0, or what package kernels says. For a kind with two of them, the second takes the upper half. It is there
// after Wait has returned nil.
func (t *Ticket) Status(i int) (status uint64) {
	b := t.batch
	for w := range b.kind.words {
		word := row(b.buffer.memory[b.kind.results:], statusSize, w*b.size+t.first+i)
		status |= uint64(binary.LittleEndian.Uint32(word)) << (32 * w)
	}
	return status
}

// Times returns when the rows' batch began to run, and how long it then took until its results were there: from pinned memory to pinned memory. It is
// known after Wait has returned nil.
func (t *Ticket) Times() (started time.Time, took time.Duration) {
	return t.batch.started, t.batch.took
}

// Device returns the number of the device that the rows are on.
func (t *Ticket) Device() int { return t.batch.session.device.number }

// Release wipes the rows and gives them back; nothing of the Ticket may be used after it. It may be called at any time, once, whether the batch
// has begun or not: rows released early are computed with whatever is in them, for nobody.
func (t *Ticket) Release() {
	b := t.batch
	clear(b.buffer.memory[t.first*b.kind.input : (t.first+t.rows)*b.kind.input])
	if !t.submitted {
		t.Submit()
	}
	if b.readable() {
		clear(b.outputs()[t.first*b.kind.output : (t.first+t.rows)*b.kind.output])
	} else {
		b.unwiped.Store(true)
	}
	b.leave(t.rows)
}

// outputs returns where the output rows of a sealed batch begin.
func (b *batch) outputs() []byte { return b.buffer.memory[b.kind.results+b.kind.statuses(b.size):] }

// readable says whether the results are there.
func (b *batch) readable() bool {
	select {
	case <-b.done:
		return b.err == nil
	default:
		return false
	}
}
