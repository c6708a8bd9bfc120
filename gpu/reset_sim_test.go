//go:build sim

package gpu

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

// slowReturn holds a worker back between the batch's end and the use of its buffer, until the context has been reset.
type slowReturn struct {
	driver.API
	sim      *simctl.Sim
	mu       sync.Mutex
	armed    bool
	returned chan struct{} // the worker has its batch and gives the context up
	reset    chan struct{}
}

func (d *slowReturn) CtxSetCurrent(ctx driver.Context) error {
	d.mu.Lock()
	hold := d.armed && ctx == 0
	if hold {
		d.armed = false
	}
	d.mu.Unlock()
	err := d.API.CtxSetCurrent(ctx)
	if hold {
		close(d.returned)
		<-d.reset
	}
	return err
}

func (d *slowReturn) PrimaryCtxReset(device int) error {
	d.sim.ReleaseHang(device) // the batch ends just now
	<-d.returned
	err := d.API.PrimaryCtxReset(device)
	close(d.reset)
	return err
}

// A batch that ends just after it counted as hung touches no memory that the reset has freed.
func TestLateReturnAfterReset(t *testing.T) {
	sim, cfg := simulated(t)
	api, err := driver.Open(cfg.Library)
	check(t, err)
	d := &slowReturn{API: api, sim: sim, returned: make(chan struct{}), reset: make(chan struct{})}
	cfg.Driver, cfg.Hang = d, 20*time.Millisecond
	e := open(t, cfg)
	sim.HangLaunch(0, 0)
	d.mu.Lock()
	d.armed = true
	d.mu.Unlock()
	input, _ := newGenerator().row(t, 653, Encaps)
	ticket := reserve(t, e, kind(t, e, 653, Encaps), input)
	if err := ticket.Wait(context.Background()); err != ErrFault {
		t.Errorf("%v, want ErrFault", err)
	}
	ticket.Release()
	awaitState(t, e, 0, StateOpen)
}

// slowCalls takes its time over a call, of EventSynchronize or MemFree, until the session hangs and for a while longer, and sees whether the context is
// reset meanwhile.
type slowCalls struct {
	driver.API
	hung    <-chan struct{} // the session's; set before slow
	slow    atomic.Uintptr  // the event, or the memory; anyEvent for any event
	entered chan struct{}
	reset   chan struct{}
	early   atomic.Bool
}

const anyEvent = ^uintptr(0)

func (d *slowCalls) take() {
	close(d.entered)
	<-d.hung
	select {
	case <-d.reset:
		d.early.Store(true)
	case <-time.After(50 * time.Millisecond): // never too short: no reset may come however long it takes
	}
}

func (d *slowCalls) EventSynchronize(e driver.Event) error {
	if d.slow.CompareAndSwap(anyEvent, 0) || d.slow.CompareAndSwap(uintptr(e), 0) {
		d.take()
	}
	return d.API.EventSynchronize(e)
}

func (d *slowCalls) MemFree(p driver.DevicePtr) error {
	if d.slow.CompareAndSwap(uintptr(p), 0) {
		d.take()
	}
	return d.API.MemFree(p)
}

func (d *slowCalls) PrimaryCtxReset(device int) error {
	close(d.reset)
	return d.API.PrimaryCtxReset(device)
}

// slowly returns a driver that is slow.
func slowly(t *testing.T, cfg *Config) *slowCalls {
	t.Helper()
	api, err := driver.Open(cfg.Library)
	check(t, err)
	d := &slowCalls{API: api, entered: make(chan struct{}), reset: make(chan struct{})}
	cfg.Driver = d
	return d
}

// The reset that ends a hang waits for a worker that does not hang, although the callers of its batch have given up.
func TestResetWaitsForOthers(t *testing.T) {
	_, cfg := simulated(t)
	d := slowly(t, &cfg)
	e := open(t, cfg)
	s := e.devices[0].session.Load()
	d.hung = s.hung
	d.slow.Store(anyEvent)
	input, _ := newGenerator().row(t, 653, Encaps)
	ticket := reserve(t, e, kind(t, e, 653, Encaps), input)
	<-d.entered
	ticket.batch.expire()
	ticket.Release()
	s.hang() // as a Job's watchdog does, or another worker's
	if st := awaitState(t, e, 0, StateOpen); st.Resets != 1 || d.early.Load() {
		t.Errorf("%+v; reset while a worker was in the driver: %v", st, d.early.Load())
	}
}

// slowJob returns an engine with a Job to run, whose memory is in the first device's context, and the second device's session, where the driver takes a
// while to wait for the first chunk.
func slowJob(t *testing.T) (e *Engine, s *session, d *slowCalls, j *Job, want []byte) {
	t.Helper()
	sim, cfg := simulated(t)
	claimAll(t)
	sim.SetDeviceCount(2)
	cfg.Chunk = 4
	d = slowly(t, &cfg)
	e = open(t, cfg)
	j, want = newJob(t, e, Encaps, 50)
	s = e.devices[1].session.Load()
	check(t, s.lane.inContext(func() error { return s.lane.prepare() }))
	d.hung = s.hung
	d.slow.Store(uintptr(s.lane.rings[0].free))
	return e, s, d, j, want
}

// So it does for a Job's thread that does not hang. The job's memory is in another device's context, which does not keep this one's from being reset.
func TestResetWaitsForJob(t *testing.T) {
	e, s, d, j, want := slowJob(t)
	lost := make(chan error, 1)
	go func() { _, err := e.Run(t.Context(), j); lost <- err }()
	<-d.entered
	s.hang() // as a worker's watchdog does
	if err := <-lost; err != ErrLost {
		t.Errorf("%v, want ErrLost", err)
	}
	if st := awaitState(t, e, 1, StateOpen); st.Resets != 1 || d.early.Load() {
		t.Errorf("%+v; reset while the lane was in the driver: %v", st, d.early.Load())
	}
	if runJob(t, e, j); checkJob(t, j, want) != 0 {
		t.Error("rows are pending")
	}
}

// And for whoever closes a Table.
func TestResetWaitsForTable(t *testing.T) {
	_, cfg := simulated(t)
	d := slowly(t, &cfg)
	e := open(t, cfg)
	s := e.devices[0].session.Load()
	table, err := e.NewTable(kind(t, e, 653, Encaps), make([]byte, scheme(653).PublicKeySize()))
	check(t, err)
	check(t, s.lane.inContext(func() error {
		r := newRun(t.Context(), &Job{Kind: table.kind, Rows: 1, Table: table}, 1)
		if !s.lane.begin(r) {
			t.Error("the session has ended")
		}
		_, err := s.lane.table(r)
		return errors.Join(err, s.lane.working(r, func() { s.lane.serving = nil }))
	}))
	d.hung = s.hung
	d.slow.Store(uintptr(s.lane.tables[table]))
	closed := make(chan error, 1)
	go func() { closed <- table.Close() }()
	<-d.entered
	s.hang()
	if err := <-closed; !errors.Is(err, errStuck) {
		t.Errorf("%v, want that the driver is stuck", err)
	}
	if st := awaitState(t, e, 0, StateOpen); st.Resets != 1 || d.early.Load() {
		t.Errorf("%+v; reset while the table was freed: %v", st, d.early.Load())
	}
}

// A Job whose lane finds out before Run that the session hangs is lost all the same: its other chunks are on their way.
func TestJobLostByLane(t *testing.T) {
	e, s, d, j, _ := slowJob(t)
	r := newRun(t.Context(), j, e.config.Chunk)
	if !r.remains() || !s.enter() {
		t.Fatal("there is nothing to do, or nobody to do it")
	}
	served := make(chan struct{})
	go func() {
		defer s.busy.Done()
		defer close(served)
		s.lane.serve(r)
	}()
	<-d.entered
	s.hang()
	<-served
	if !r.lost.Load() {
		t.Error("the device has chunks of a job that does not count as lost")
	}
	awaitState(t, e, 1, StateOpen)
}

// A logging calls a function with each message.
type logging func(message string)

func (f logging) Enabled(context.Context, slog.Level) bool { return true }

func (f logging) Handle(_ context.Context, r slog.Record) error {
	f(r.Message)
	return nil
}

func (f logging) WithAttrs([]slog.Attr) slog.Handler { return f }

func (f logging) WithGroup(string) slog.Handler { return f }

// A process that was stopped finds that a batch has had its time, and a Job's chunk: neither device hangs yet. A worker, or a lane, that comes back when
// the watchdog has given it up does nothing more, lest it is in the driver when that is reset.
func TestGivenUp(t *testing.T) {
	sim, cfg := simulated(t)
	failed := func() {} // called while the session is about to count as hung
	cfg.Logger = slog.New(logging(func(message string) {
		if strings.HasPrefix(message, "gpu: the device failed") {
			failed()
		}
	}))
	e := open(t, cfg)
	input, _ := newGenerator().row(t, 653, Encaps)

	s := e.devices[0].session.Load()
	w := s.workers[0]
	sim.Hold(0, true)
	ticket := reserve(t, e, kind(t, e, 653, Encaps), input)
	awaitRunning(t, e)
	w.current.Load().deadline = time.Now()
	if w.bark(); s.isStopping() {
		t.Error("given up at once")
	}
	failed = func() {
		sim.Hold(0, false)
		select {
		case <-w.gone:
		case <-time.After(enough):
			t.Error("the worker goes on")
		}
	}
	w.bark()
	sim.Hold(0, false)
	if err := ticket.Wait(t.Context()); err != ErrFault {
		t.Errorf("%v, want ErrFault", err)
	}
	ticket.Release()
	awaitState(t, e, 0, StateOpen)

	s = e.devices[0].session.Load()
	check(t, s.lane.watch())
	s.lane.deadline = time.Now()
	if s.lane.bark(); s.isStopping() {
		t.Error("given up at once")
	}
	failed = func() {
		if err := s.lane.watch(); err != errHang {
			t.Errorf("the lane may call the driver: %v", err)
		}
	}
	s.lane.bark()
	if st := awaitState(t, e, 0, StateOpen); st.Hangs != 2 || st.Reopened != 2 {
		t.Errorf("%+v", st)
	}
}

// inContext calls fn in the session's context.
func (l *lane) inContext(fn func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	api := l.session.api
	return errors.Join(api.CtxSetCurrent(l.session.context), fn(), api.CtxSetCurrent(0))
}

// A session is vacated, and may be freed, only when the buffers of those who left are cleared.
func TestWipedBeforeVacated(t *testing.T) {
	_, cfg := simulated(t)
	e := open(t, cfg)
	s := e.devices[0].session.Load()
	input, _ := newGenerator().row(t, 653, Encaps)
	ticket, err := e.Reserve(kind(t, e, 653, Encaps), 1)
	check(t, err)
	b := ticket.batch
	copy(ticket.Input(0), input)
	b.expire()
	ticket.Submit()
	eventually(t, func() bool { return b.inUse.Load() == 1 }, func() string { return "the worker keeps the buffer" })
	s.wiping.Lock()
	released := make(chan struct{})
	go func() {
		ticket.Release()
		close(released)
	}()
	eventually(t, func() bool { return b.inUse.Load() == 0 }, func() string { return "the caller keeps the buffer" })
	s.mu.Lock()
	_, in := s.occupied[b]
	s.mu.Unlock()
	if !in {
		t.Error("the caller counts as gone and has a buffer to clear")
	}
	s.wiping.Unlock()
	<-released
}
