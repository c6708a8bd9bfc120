package gpu

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels"
)

// A worker runs batches in streams of its own. Those of its methods that call the driver are for one thread at a time, which has the session's context.
type worker struct {
	launcher
	stream  driver.Stream
	done    driver.Event
	side    driver.Stream    // for launches beside those in stream, which it follows from the one event
	forked  driver.Event     // and is followed by from
	joined  driver.Event     // the other
	memory  driver.DevicePtr // a batch's input, then its results
	size    int
	scratch driver.DevicePtr
	room    int              // bytes of scratch
	key     driver.DevicePtr // a signing key's; 0 without signatures
	keyOf   uint64           // whose public part is there

	plan   kernels.Plan
	filled chan struct{}

	watchdog *time.Timer
	awake    atomic.Bool           // the watchdog will look
	current  atomic.Pointer[batch] // the one that runs; whoever sets it to nil, worker or watchdog, ends it

	gone chan struct{} // closed when the worker has ended, or its watchdog has given it up
	once sync.Once     // closes it
}

// work serves batches until the session stops.
func (w *worker) work() {
	s := w.session
	defer s.busy.Done()
	defer w.leave()
	w.watchdog = time.AfterFunc(someday, w.bark)
	defer w.watchdog.Stop()
	for b := s.take(); b != nil; b = s.take() {
		if !w.serve(b) {
			return
		}
	}
}

// serve runs a batch; it reports whether the session is still good.
func (w *worker) serve(b *batch) bool {
	s := w.session
	// A goroutine that is woken runs before all others that could run. Without stepping back here, the worker would
	// seal the batch with the one row of whoever woke it, ahead of all callers that are about to reserve theirs.
	runtime.Gosched()
	s.seal(b)
	b.awaitWriters(w.filled)
	if b.over.Load() { // its callers gave up while it waited
		<-b.done
		s.retire(b)
		return true
	}
	s.runs.Add(1)
	w.watch(b)
	err := w.runInContext(b)
	s.runs.Add(-1)
	if !w.current.CompareAndSwap(b, nil) {
		return false // the watchdog has given the worker up, and the batch its end
	}
	if err != nil {
		s.fail(err)
		b.finish(ErrFault)
		return false
	}
	if s.device.isRefused() {
		err = ErrFault
	} else {
		s.device.count(b)
	}
	if !b.finish(err) {
		<-b.done
	}
	s.retire(b)
	return true
}

func (w *worker) watch(b *batch) {
	hang := w.session.device.engine.config.Hang
	b.started = time.Now()
	b.deadline = b.started.Add(hang)
	w.current.Store(b)
	w.rouse(hang)
}

// rouse has the watchdog look after a while, unless it will look sooner.
func (w *worker) rouse(after time.Duration) {
	if w.awake.CompareAndSwap(false, true) {
		w.watchdog.Reset(after)
	}
}

// patience is how much longer a watchdog waits when it finds that what it watches has had its time. A process that was stopped for so long finds that
// when it goes on, perhaps between two calls of the driver, the next of which would come after the reset.
func patience(hang time.Duration) time.Duration { return hang / 8 }

// bark is the watchdog's: if the batch that runs has had its time, and then some, the session ends, and the worker is left in the driver. The watchdog is
// not called off for each batch that ends, nor called for each that begins.
func (w *worker) bark() {
	w.awake.Store(false)
	b := w.current.Load()
	if b == nil {
		return
	}
	if left := time.Until(b.deadline); left > 0 {
		w.rouse(left)
		return
	}
	if !b.overdue.Swap(true) {
		w.rouse(patience(w.session.device.engine.config.Hang))
		return
	}
	if !w.current.CompareAndSwap(b, nil) {
		return // it has just ended, and the worker may have gone on
	}
	w.session.hang()
	b.finish(ErrFault)
	w.leave()
}

// leave says that nobody need wait for the worker.
func (w *worker) leave() { w.once.Do(func() { close(w.gone) }) }

// runInContext runs a batch. The goroutine holds a thread for no longer than that: one that keeps its thread for good costs two more switches between
// threads each time that it waits for work or for callers. The thread goes without a context, or, after an error, ends with the goroutine.
func (w *worker) runInContext(b *batch) error {
	s := w.session
	runtime.LockOSThread()
	if err := s.api.CtxSetCurrent(s.context); err != nil {
		return err
	}
	if err := w.run(b.kind, b.size, b.buffer); err != nil {
		return err
	}
	if err := s.api.CtxSetCurrent(0); err != nil {
		return err
	}
	runtime.UnlockOSThread()
	return nil
}

// run puts n rows through the device: from the start of the buffer, with the results after them as the kind says.
func (w *worker) run(k *Kind, n int, b *buffer) error {
	s := w.session
	if err := k.plan(&w.plan, n, s.device.shape()); err != nil {
		return err
	}
	if err := w.reach(w.plan.ScratchSize); err != nil {
		return err
	}
	enqueue := w.copied
	if s.device.engine.config.maps(k, &w.plan) {
		enqueue = w.mapped
	}
	if err := enqueue(k, n, b); err != nil {
		return err
	}
	return s.api.EventSynchronize(w.done)
}

// mapped has the kernels read and write the host's memory.
func (w *worker) mapped(k *Kind, n int, b *buffer) error {
	results := b.mapped.Offset(k.results)
	err := w.compute(&addresses{
		kernels.Input: b.mapped, kernels.Status: results, kernels.Output: results.Offset(k.statuses(n)), kernels.Scratch: w.scratch,
	})
	if err != nil {
		return err
	}
	return w.session.api.EventRecord(w.done, w.stream)
}

// copied has one copy before the kernels and one after, and wipes the device's memory behind them.
func (w *worker) copied(k *Kind, n int, b *buffer) error {
	api := w.session.api
	results := aligned(w.plan.InputSize)
	size := k.statuses(n) + w.plan.OutputSize
	if err := api.CopyToDevice(w.memory, b.memory[:w.plan.InputSize], w.stream); err != nil {
		return err
	}
	if err := w.bring(k.key); err != nil {
		return err
	}
	err := w.compute(&addresses{
		kernels.Input: w.memory, kernels.Status: w.memory.Offset(results), kernels.Output: w.memory.Offset(results + k.statuses(n)),
		kernels.Scratch: w.scratch, kernels.Table: w.key,
	})
	if err != nil {
		return err
	}
	if err := api.CopyToHost(b.memory[k.results:k.results+size], w.memory.Offset(results), w.stream); err != nil {
		return err
	}
	if err := api.EventRecord(w.done, w.stream); err != nil {
		return err
	}
	if err := w.wipeKey(k.key); err != nil {
		return err
	}
	return api.MemsetAsync(w.memory, 0, results+size, w.stream)
}

// compute enqueues the plan's launches, those that may run beside the others in a stream of their own, and first, since they take longer.
func (w *worker) compute(at *addresses) error {
	api, plan := w.session.api, &w.plan
	if len(plan.Beside) == 0 || w.session.device.engine.config.OneStream {
		if err := w.launch(plan.Beside, at, w.stream); err != nil {
			return err
		}
		return w.launch(plan.Launches, at, w.stream)
	}
	if err := api.EventRecord(w.forked, w.stream); err != nil {
		return err
	}
	if err := api.StreamWaitEvent(w.side, w.forked); err != nil {
		return err
	}
	if err := w.launch(plan.Beside, at, w.side); err != nil {
		return err
	}
	if err := w.launch(plan.Launches, at, w.stream); err != nil {
		return err
	}
	if err := api.EventRecord(w.joined, w.side); err != nil {
		return err
	}
	return api.StreamWaitEvent(w.stream, w.joined)
}

// allocate makes the streams, and memory for any batch of the engine's kinds.
func (w *worker) allocate(size, scratch int) (err error) {
	api := w.session.api
	for _, stream := range []*driver.Stream{&w.stream, &w.side} {
		if *stream, err = api.StreamCreate(0); err != nil {
			return err
		}
	}
	for _, event := range []*driver.Event{&w.forked, &w.joined} {
		if *event, err = api.EventCreate(driver.EventNoTiming); err != nil {
			return err
		}
	}
	if w.done, err = api.EventCreate(driver.EventBlocking | driver.EventNoTiming); err != nil {
		return err
	}
	if w.memory, err = api.MemAlloc(size); err != nil {
		return err
	}
	w.size = size
	// The padding between statuses and outputs is copied to the host too: not what the memory held before.
	if err = api.MemsetAsync(w.memory, 0, size, w.stream); err != nil {
		return err
	}
	if w.session.device.engine.config.Sign {
		if w.key, err = api.MemAlloc(kernels.P256KeySize); err != nil {
			return err
		}
	}
	return w.reach(scratch)
}

// reach makes the scratch memory n bytes at least.
func (w *worker) reach(n int) (err error) {
	if n <= w.room {
		return nil
	}
	api := w.session.api
	if w.scratch != 0 {
		if err := api.StreamSynchronize(w.stream); err != nil {
			return err
		}
		if err := api.MemFree(w.scratch); err != nil {
			return err
		}
		w.scratch, w.room = 0, 0
	}
	if w.scratch, err = api.MemAlloc(n); err == nil {
		w.room = n
	}
	return err
}

// free waits for the streams, wipes and frees what allocate made.
func (w *worker) free() error {
	api := w.session.api
	var errs []error
	if w.side != 0 {
		errs = append(errs, api.StreamSynchronize(w.side), api.StreamDestroy(w.side))
	}
	for p, size := range map[driver.DevicePtr]int{w.memory: w.size, w.scratch: w.room, w.key: kernels.P256KeySize} {
		if p != 0 {
			errs = append(errs, api.MemsetAsync(p, 0, size, w.stream))
		}
	}
	if w.stream != 0 {
		errs = append(errs, api.StreamSynchronize(w.stream), api.StreamDestroy(w.stream))
	}
	for _, event := range []driver.Event{w.forked, w.joined, w.done} {
		if event != 0 {
			errs = append(errs, api.EventDestroy(event))
		}
	}
	for _, p := range []driver.DevicePtr{w.memory, w.scratch, w.key} {
		if p != 0 {
			errs = append(errs, api.MemFree(p))
		}
	}
	return errors.Join(errs...)
}
