package gpu

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/internal/average"
	"github.com/ctrutls/ctrutls/internal/histogram"
	"github.com/ctrutls/ctrutls/kernels"
)

// closeTime is how long the driver may take over what is done once at the end of a session, or of pinned memory.
var closeTime = 15 * time.Second

// A device is one device for as long as the engine lives. Its keeper, a goroutine, opens it again when it has failed.
type device struct {
	engine  *Engine
	api     driver.API
	log     *slog.Logger
	number  int
	info    driver.DeviceInfo
	session atomic.Pointer[session] // nil while none takes rows

	latency   []average.Line      // of batches, from start to end in nanoseconds, by their rows; by Kind.index
	flight    []average.Average   // of rows, from joining to results in nanoseconds; by Kind.index
	latencies histogram.Histogram // of all batches, in nanoseconds
	sizes     histogram.Histogram // the same, in rows

	batches, rows, jobRows, late, faults, hangs, resets, reopened atomic.Uint64

	sensing reading // of sensors, the latest one

	mu     sync.Mutex
	state  State
	since  time.Time
	fault  error // the last
	halted bool  // nothing opens the device any more
}

// shape is what plans have to know of the device.
func (d *device) shape() kernels.Device {
	return kernels.Device{Multiprocessors: d.info.Multiprocessors, Shared: d.info.MaxSharedPerBlock}
}

// expected says when a row of a kind that joins now is expected back, in nanoseconds: after the batches ahead of its own, and as its own takes
// with the rows that are in it. A device that has not been measured is tried.
func (d *device) expected(s *session, k *Kind) float64 {
	line := &d.latency[k.index]
	base, slope := line.Value()
	ahead, rows := s.open.Load(), 1
	if b := s.queues[k.queue].open.Load(); b != nil && b.kind == k {
		if n := b.room(); n > 0 {
			ahead, rows = ahead-1, k.capacity-n+1
		}
	}
	// A row counts for a little where no difference has shown, so that equal devices get equally many.
	return float64(ahead)/float64(len(s.workers))*max(line.Mean(), 1) + base + max(slope, leastRow)*float64(rows)
}

// leastRow is the nanoseconds that a row more in a batch is taken for at least.
const leastRow = 1

// count takes note of a batch that has ended well.
func (d *device) count(b *batch) {
	b.took = time.Since(b.started)
	d.latency[b.kind.index].Add(float64(b.size), float64(b.took))
	// Rows come evenly, so that half of the time in which they gathered is what they waited.
	d.flight[b.kind.index].Add(float64(b.took + b.started.Sub(b.opened)/2))
	d.latencies.Add(uint64(b.took))
	d.sizes.Add(uint64(b.size))
	d.batches.Add(1)
	d.rows.Add(uint64(b.size))
}

// set changes the device's state, and logs it once a change. fault is what it is due to, if anything. A final state stays.
func (d *device) set(state State, fault error, final bool, log func()) {
	d.mu.Lock()
	changed := d.state != state && !d.halted
	if changed {
		d.state, d.since = state, time.Now()
	}
	if fault != nil && !d.halted {
		d.fault = fault
	}
	d.halted = d.halted || final
	d.mu.Unlock()
	if changed {
		log()
	}
}

// halt sets a state that does not change any more.
func (d *device) halt(state State, fault error) {
	d.set(state, fault, true, func() { d.log.Error("gpu: the device is "+state, "error", fault) })
}

// stalled takes note that batches have become late, or no longer are.
func (d *device) stalled(on bool) {
	d.mu.Lock()
	from, to := StateOpen, StateStalled
	if !on {
		from, to = to, from
	}
	changed := d.state == from && !d.halted
	if changed {
		d.state, d.since = to, time.Now()
	}
	d.mu.Unlock()
	switch {
	case changed && on:
		d.log.Warn("gpu: a batch is late; the device gets no more until it is back", "wait", d.engine.config.MaxWait)
	case changed:
		d.log.Info("gpu: the late batch is back")
	}
}

// failed takes a session out of use because of a fault, and counts it.
func (d *device) failed(s *session, fault error) {
	if !errors.Is(fault, errMismatch) { // which Refuse reports
		d.faults.Add(1)
	}
	if fault == errHang {
		d.hangs.Add(1)
	}
	d.set(StateReopening, fault, false, func() {
		d.log.Warn("gpu: the device failed; operations run without it until it opens again", "error", fault)
	})
	d.session.CompareAndSwap(s, nil)
}

// refuse closes the device for good.
func (d *device) refuse(reason error) {
	fault := fmt.Errorf("%w: %w", errMismatch, reason)
	d.halt(StateRefused, fault)
	if s := d.session.Load(); s != nil {
		s.fail(fault)
	}
}

// isRefused says whether the device has given a wrong result, so that none of those to come counts.
func (d *device) isRefused() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state == StateRefused
}

func (d *device) isHalted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.halted
}

// start puts a session into use.
func (d *device) start(s *session) {
	d.set(StateOpen, nil, false, func() {
		d.log.Info("gpu: the device is open", "driver", driver.Implementation(), "compute_capability", fmt.Sprintf("%d.%d", d.info.Major, d.info.Minor), "memory", d.info.Memory)
	})
	d.session.Store(s)
	d.engine.room.changed()
	for _, w := range s.workers {
		s.busy.Add(1)
		go w.work()
	}
	if d.isHalted() { // refused meanwhile
		s.fail(errMismatch)
	}
}

// keep ends sessions that fail and opens new ones, until the engine is closed or the device halted. s is the one in use, nil if
// opening it failed.
func (d *device) keep(s *session) {
	defer d.engine.keepers.Done()
	pause := d.engine.config.Backoff
	for {
		batches, resets := d.batches.Load(), d.resets.Load()
		if s != nil {
			select {
			case <-s.broken:
			case <-d.engine.closing:
			}
			d.session.CompareAndSwap(s, nil)
			d.engine.room.changed()
			if err := d.end(s); err != nil {
				d.engine.closingError(err)
				d.halt(StateClosed, err)
			}
			if d.batches.Load() > batches {
				pause = d.engine.config.Backoff
			}
		}
		if d.isHalted() || !d.rest(pause) {
			return
		}
		pause = min(2*pause, max(maxBackoff, d.engine.config.Backoff))
		var fault error
		if s, fault = d.open(); s == nil {
			d.failedToOpen(fault, d.resets.Load() > resets)
			continue
		}
		d.reopened.Add(1)
		d.start(s)
	}
}

// rest waits before the device is opened again; it reports whether it is to be.
func (d *device) rest(pause time.Duration) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-d.engine.closing:
		return false
	case <-t.C:
	}
	select {
	case <-d.engine.closing:
		return false
	default:
		return true
	}
}

// failedToOpen decides whether to try again. reset says that the context was reset before.
func (d *device) failedToOpen(fault error, reset bool) {
	d.set(StateReopening, fault, false, func() {
		d.log.Warn("gpu: the device did not open and is tried again", "error", fault)
	})
	var version *driver.VersionError
	switch {
	case errors.Is(fault, errMismatch):
		d.halt(StateRefused, fault)
	case errors.As(fault, &version):
		d.halt(StateClosed, fault)
	case errors.Is(fault, errStuck), reset && sticky(fault):
		d.halt(StateClosed, fmt.Errorf("%w: %w", fault, errRestart))
	}
}

// sticky says whether an error spoils the context it occurred in.
func sticky(err error) bool {
	var r driver.Result
	return errors.As(err, &r) && r.Sticky()
}

// open opens a session, within Config.OpenTimeout, or closeTime once the engine is being closed.
func (d *device) open() (*session, error) {
	type opened struct {
		s   *session
		err error
	}
	result, given := make(chan opened), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		s, err := openSession(d)
		select {
		case result <- opened{s, err}:
			if err == nil {
				runtime.UnlockOSThread() // no context is left on it
			}
		case <-given: // nobody waits any more
			if s != nil {
				_ = s.freeInContext()
			}
		}
	}()
	limit, closing := d.engine.config.OpenTimeout, d.engine.closing
	end := time.Now().Add(limit)
	t := time.NewTimer(limit)
	defer t.Stop()
	for {
		select {
		case r := <-result:
			return r.s, r.err
		case <-closing:
			closing = nil
			t.Reset(min(time.Until(end), closeTime))
		case <-t.C:
			close(given)
			if closing == nil {
				return nil, errStuck
			}
			return nil, fmt.Errorf("%w: the device did not open within %v; raise OpenTimeout where kernels only take long to compile", errStuck, limit)
		}
	}
}

// end takes a session apart once its callers have left. An error says that the device must stay closed.
func (d *device) end(s *session) error {
	s.stop()
	<-s.vacated
	fault := s.faultOf()
	idle := make(chan struct{})
	go func() {
		s.busy.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		if !sticky(fault) {
			return d.free(s, fault)
		}
	case <-s.hung:
		s.awaitThreads()
	}
	s.wipe()
	alone := false
	err, returned := within(closeTime, func() (err error) {
		alone, err = resetContext(s.api, d.number)
		return err
	})
	switch {
	case !returned:
		return fmt.Errorf("%w: %w: %w", fault, errStuck, errRestart)
	case !alone:
		if !s.isHung() {
			_ = d.free(s, fault) // leaves the reset to the others
		}
		return fmt.Errorf("%w, and others in this process use its context: %w", fault, errRestart)
	}
	d.resets.Add(1)
	if err != nil {
		d.log.Debug("gpu: context reset", "error", err)
	}
	t := time.NewTimer(closeTime)
	defer t.Stop()
	select {
	case <-idle:
		return nil
	case <-t.C:
		return fmt.Errorf("%w: %w: %w", fault, errStuck, errRestart)
	}
}

// free frees a session's things one by one; fault is what it has ended with.
func (d *device) free(s *session, fault error) error {
	err, returned := within(closeTime, s.freeInContext)
	if !returned {
		return fmt.Errorf("%w: %w", errStuck, errRestart)
	}
	if err != nil {
		d.log.Debug("gpu: closing the device", "error", err)
	}
	if fault == nil {
		d.engine.closingError(err)
	}
	return nil
}

// within runs fn on a thread of its own and waits for it for a time; returned says whether it has come back.
func within(limit time.Duration, fn func() error) (err error, returned bool) {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: whatever context it had goes with it
		result <- fn()
	}()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case err := <-result:
		return err, true
	case <-t.C:
		return nil, false
	}
}
