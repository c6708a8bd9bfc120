package gpu

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels"
)

// someday is when a timer goes off that nobody has set.
const someday = time.Hour

// A session is one opening of a device: its context and all that lives in it. It ends with the first fault, and is not mended.
type session struct {
	device  *device
	api     driver.API
	context driver.Context
	modules map[kernels.Module]driver.Module
	workers []*worker
	lane    *lane
	undo    []func() error // what frees everything, in order of allocation

	ready chan struct{}  // a token for each batch that there may be for a worker
	quit  chan struct{}  // closed by stop
	busy  sync.WaitGroup // workers, and what else is in the driver
	late  atomic.Int32   // batches that callers gave up and the device has not finished
	open  atomic.Int32   // batches that are not finished
	runs  atomic.Int32   // those of them that the device has

	mu       sync.Mutex
	queues   []queue // by Kind.queue
	turn     int     // the kind to be looked at first
	buffers  []*buffer
	free     []*buffer
	stopping bool
	occupied map[*batch]struct{} // batches that callers are in
	patience *time.Timer         // ends that of callers
	patient  bool                // it runs
	fault    error

	wiping sync.RWMutex // held for reading by whoever clears a buffer, for writing by whoever clears all of them to free them

	vacated chan struct{} // closed when the session is stopping and no caller touches its memory any more
	broken  chan struct{} // closed by the first fault
	hung    chan struct{} // closed when a worker, or the lane, does not come back
}

// A queue is the batches that wait for a worker, of one kind or of the kinds that share it.
type queue struct {
	open    atomic.Pointer[batch] // the one that callers join; the last of waiting, or with a worker that is about to seal it
	waiting []*batch
	buffers int // taken by the kind's batches
}

// reserve takes up to n rows in the open batch, or starts one.
func (s *session) reserve(k *Kind, n int) (Ticket, error) {
	if s.late.Load() > 0 {
		return Ticket{}, ErrUnavailable
	}
	if b := s.queues[k.queue].open.Load(); b != nil && b.kind == k {
		if first, got := b.join(n); got > 0 {
			s.grown(k, first, got)
			return Ticket{batch: b, first: first, rows: got}, nil
		}
	}
	return s.start(k, n)
}

// besideRows is how many rows a batch must have to be run beside another, unless it is full. What a batch costs the CPU, calls of the driver and threads
// that wake, is then little for each of them. Fewer had better wait for the batch that runs and for the rows that come meanwhile: two small batches side
// by side would cost twice as much, and be done hardly sooner.
const besideRows = 32

// beside is how many rows of a kind make a batch that is run beside others.
func (k *Kind) beside() int { return min(besideRows, k.capacity) }

// grown wakes a worker when a batch has become large enough to be run beside others.
func (s *session) grown(k *Kind, first, got int) {
	if first < k.beside() && first+got >= k.beside() {
		s.wake()
	}
}

// wake has a worker look for a batch.
func (s *session) wake() {
	select {
	case s.ready <- struct{}{}:
	default: // a token for each worker lies there
	}
}

// start seals the kind's open batch if it is full, and takes rows in a new one.
func (s *session) start(k *Kind, n int) (Ticket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return Ticket{}, ErrUnavailable
	}
	q := &s.queues[k.queue]
	if b := q.open.Load(); b != nil {
		if b.kind == k {
			if first, got := b.join(n); got > 0 {
				s.grown(k, first, got)
				return Ticket{batch: b, first: first, rows: got}, nil
			}
		}
		s.sealLocked(b)
	}
	// The last buffer is for a kind that has none: a crowd of one kind leaves a place for the others.
	if len(s.free) == 0 || (len(s.free) == 1 && q.buffers > 0 && len(s.queues) > 1) {
		return Ticket{}, ErrBusy
	}
	b := &batch{session: s, kind: k, opened: time.Now(), done: make(chan struct{}), morning: new(sleeper)}
	b.buffer, s.free = s.free[len(s.free)-1], s.free[:len(s.free)-1]
	b.inUse.Store(2)
	_, got := b.join(n)
	if !s.patient {
		s.patient = true
		s.patience.Reset(s.device.engine.config.MaxWait)
	}
	q.buffers++
	q.waiting = append(q.waiting, b)
	q.open.Store(b)
	s.occupied[b] = struct{}{}
	s.open.Add(1)
	s.wake()
	return Ticket{batch: b, rows: got}, nil
}

func (s *session) seal(b *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealLocked(b)
}

// sealLocked closes a batch to further callers and fixes its size.
func (s *session) sealLocked(b *batch) {
	if b.sealed {
		return
	}
	b.sealed = true
	s.queues[b.kind.queue].open.CompareAndSwap(b, nil)
	b.size = min(int(b.joined.Or(sealedBit)&countMask), b.kind.capacity)
}

// take returns the next batch for a worker, of the kinds by turns, and waits for one. It returns nil when the session stops.
func (s *session) take() *batch {
	for {
		if b, stopping := s.tryTake(); b != nil || stopping {
			return b
		}
		select {
		case <-s.ready:
		case <-s.quit:
		}
	}
}

func (s *session) tryTake() (b *batch, stopping bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.queues {
		q := &s.queues[(s.turn+i)%len(s.queues)]
		if len(q.waiting) == 0 {
			continue
		}
		if b = q.waiting[0]; !s.stopping && s.runs.Load() > 0 && !b.sealed && b.rows() < b.kind.beside() {
			continue
		}
		n := copy(q.waiting, q.waiting[1:])
		q.waiting[n] = nil
		q.waiting = q.waiting[:n]
		s.turn = (s.turn + i + 1) % len(s.queues)
		return b, false
	}
	return nil, s.stopping
}

// retire says that the device has finished with a batch's memory, and its callers have their answer.
func (s *session) retire(b *batch) {
	s.open.Add(-1)
	if b.late {
		s.lateBy(-1)
	}
	b.drop()
}

// expire ends the patience of callers whose batches were opened too long ago.
func (s *session) expire() {
	limit := s.device.engine.config.MaxWait
	var late []*batch
	next := limit
	s.mu.Lock()
	s.patient = false
	for b := range s.occupied {
		left := limit - time.Since(b.opened)
		switch {
		case b.over.Load():
		case left <= 0:
			late = append(late, b)
		default:
			next, s.patient = min(next, left), true
		}
	}
	if s.patient {
		s.patience.Reset(next)
	}
	s.mu.Unlock()
	for _, b := range late {
		b.expire()
	}
}

// lateBy counts batches that are late. While there are any the device gets no rows.
func (s *session) lateBy(n int32) {
	switch now := s.late.Add(n); {
	case n > 0 && now == n:
		s.device.stalled(true)
	case now == 0:
		s.device.stalled(false)
	}
	s.device.engine.room.changed()
}

// vacate takes note that a batch's callers have all left.
func (s *session) vacate(b *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.occupied, b)
	s.settleLocked()
}

// inFlight returns how many rows are in batches that have not ended.
func (s *session) inFlight() (rows int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for b := range s.occupied {
		switch {
		case b.over.Load():
		case b.sealed:
			rows += b.size
		default:
			rows += b.rows()
		}
	}
	return rows
}

func (s *session) settleLocked() {
	if s.stopping && len(s.occupied) == 0 {
		close(s.vacated)
	}
}

// recycle takes a batch's buffer back.
func (s *session) recycle(b *batch) {
	if b.unwiped.Load() {
		s.wipeOne(b.buffer)
	}
	s.mu.Lock()
	s.queues[b.kind.queue].buffers--
	s.free = append(s.free, b.buffer)
	s.mu.Unlock()
	s.device.engine.room.changed()
}

// stop lets no further batch begin.
func (s *session) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopLocked()
}

func (s *session) stopLocked() {
	if s.stopping {
		return
	}
	s.stopping = true
	close(s.quit)
	s.settleLocked()
}

// fail ends the session with a fault, the first of which counts: batches that no worker has yet get ErrFault.
func (s *session) fail(fault error) {
	s.mu.Lock()
	if s.fault != nil {
		s.mu.Unlock()
		return
	}
	s.fault = fault
	s.device.failed(s, fault)
	var left []*batch
	for i := range s.queues {
		left = append(left, s.queues[i].waiting...)
		s.queues[i].waiting = nil
	}
	for _, b := range left {
		s.sealLocked(b)
	}
	s.stopLocked()
	s.mu.Unlock()
	for _, b := range left {
		b.finish(ErrFault)
	}
	close(s.broken)
	s.device.engine.room.changed()
}

// hang ends the session because a worker does not come back.
func (s *session) hang() {
	s.fail(errHang)
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.hung:
	default:
		close(s.hung)
	}
}

// awaitThreads returns when every worker is through with its last batch, and the lane with its call of the driver, or has hung as well: nobody calls the
// driver any more who could return from it. Callers' patience may be over long before that.
func (s *session) awaitThreads() {
	for _, w := range s.workers {
		<-w.gone
	}
	s.lane.awaitGone()
}

// enter counts in a user of the driver outside the workers, who counts himself out by busy.Done; it reports false when the session stops.
func (s *session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return false
	}
	s.busy.Add(1)
	return true
}

func (s *session) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

func (s *session) isHung() bool { return isClosed(s.hung) }

// openSession opens the device for cfg. It is called on a locked thread, which it leaves without a context.
func openSession(d *device) (s *session, err error) {
	e := d.engine
	s = &session{
		device: d, api: e.api, modules: make(map[kernels.Module]driver.Module), queues: make([]queue, e.queues()),
		occupied: make(map[*batch]struct{}),
		ready:    make(chan struct{}, e.config.Workers), quit: make(chan struct{}),
		vacated: make(chan struct{}), broken: make(chan struct{}), hung: make(chan struct{}),
	}
	s.patience = time.AfterFunc(someday, s.expire)
	s.undo = append(s.undo, func() error {
		s.patience.Stop()
		return nil
	})
	defer func() {
		if err != nil {
			err = errors.Join(err, s.freeAll())
			s = nil
		}
	}()
	if s.context, err = retainContext(s.api, d.number); err != nil {
		return s, err
	}
	s.undo = append(s.undo, func() error { return releaseContext(s.api, d.number) })
	if err = s.api.CtxSetCurrent(s.context); err != nil {
		return s, err
	}
	s.undo = append(s.undo, func() error { return s.api.CtxSetCurrent(0) })
	if _, _, err = s.api.MemInfo(); err != nil { // a spoilt context says so
		return s, err
	}
	need, err := d.need()
	if err != nil {
		return s, err
	}
	if err = s.load(need.modules); err != nil {
		return s, err
	}
	if err = s.allocate(need.buffer, need.scratch); err != nil {
		return s, err
	}
	if err = s.probe(); err != nil {
		return s, err
	}
	return s, s.api.CtxSetCurrent(0)
}

func (s *session) load(modules []kernels.Module) error {
	for _, module := range modules {
		text, err := module.PTX()
		if err != nil {
			return err
		}
		m, err := s.api.ModuleLoad(text)
		if err != nil {
			return err
		}
		s.modules[module] = m
		s.undo = append(s.undo, func() error { return s.api.ModuleUnload(m) })
	}
	return nil
}

// allocate makes the buffers, of so many bytes, and the workers, in this order: memory is freed when the streams that use it have come to rest.
func (s *session) allocate(size, scratch int) error {
	e := s.device.engine
	for range e.config.Buffers {
		memory, err := s.api.HostAlloc(size)
		if err != nil {
			return err
		}
		s.undo = append(s.undo, func() error { return s.api.HostFree(memory) })
		mapped, err := s.api.HostDevicePtr(memory)
		if err != nil {
			return err
		}
		s.buffers = append(s.buffers, &buffer{memory, mapped, make([]bed, e.config.Capacity)})
	}
	s.wipe()
	s.free = slices.Clone(s.buffers)
	s.lane = newLane(s)
	s.undo = append(s.undo, s.lane.free)
	for range e.config.Workers {
		w := &worker{launcher: newLauncher(s), filled: make(chan struct{}, 1), gone: make(chan struct{})}
		s.undo = append(s.undo, w.free)
		if err := w.allocate(size, scratch); err != nil {
			return err
		}
		s.workers = append(s.workers, w)
	}
	return nil
}

// probe runs the configured operations with known results.
func (s *session) probe() error {
	e := s.device.engine
	buffer := s.free[0]
	host := buffer.memory
	defer clear(host)
	for _, p := range e.probes {
		k := p.kind
		copy(host, p.Input)
		if err := s.workers[0].run(k, 1, buffer); err != nil {
			return err
		}
		if statuses, output := host[k.results:][:statusSize*k.words], host[k.results+k.statuses(1):][:k.output]; slices.Max(statuses) != 0 || string(output) != string(p.Output) {
			return fmt.Errorf("%w: probe of %v", errMismatch, k)
		}
	}
	return nil
}

// faultOf returns the fault that ended the session, nil if it is good.
func (s *session) faultOf() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

// wipeOne clears a buffer, unless the session hangs: its device is reset without waiting for the worker, and takes the memory with it. Then
// wipe, before the reset, is the last to touch the memory.
func (s *session) wipeOne(b *buffer) {
	s.wiping.RLock()
	defer s.wiping.RUnlock()
	if !s.isHung() {
		clear(b.memory)
	}
}

// wipe clears the pinned memory.
func (s *session) wipe() {
	s.wiping.Lock()
	defer s.wiping.Unlock()
	for _, b := range s.buffers {
		clear(b.memory)
	}
}

// freeInContext is freeAll on a thread without the context.
func (s *session) freeInContext() error {
	return errors.Join(s.api.CtxSetCurrent(s.context), s.freeAll())
}

// freeAll wipes and frees everything, on a locked thread that has the context. Errors are of interest only where nothing was wrong before.
func (s *session) freeAll() error {
	s.wipe()
	var errs []error
	for i := len(s.undo) - 1; i >= 0; i-- {
		errs = append(errs, s.undo[i]())
	}
	s.undo = nil
	return errors.Join(errs...)
}
