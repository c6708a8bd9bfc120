//go:build sim

package gpu

import (
	"context"
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

// slowEvent takes its time over an event, and sees whether the context is reset meanwhile.
type slowEvent struct {
	driver.API
	armed   atomic.Bool
	entered chan struct{}
	reset   chan struct{}
	early   atomic.Bool
}

func (d *slowEvent) EventSynchronize(e driver.Event) error {
	if d.armed.CompareAndSwap(true, false) {
		close(d.entered)
		select {
		case <-d.reset:
			d.early.Store(true)
		case <-time.After(50 * time.Millisecond): // never too short: no reset may come however long it takes
		}
	}
	return d.API.EventSynchronize(e)
}

func (d *slowEvent) PrimaryCtxReset(device int) error {
	close(d.reset)
	return d.API.PrimaryCtxReset(device)
}

// The reset that ends a hang waits for a worker that does not hang, although the callers of its batch have given up.
func TestResetWaitsForOthers(t *testing.T) {
	_, cfg := simulated(t)
	api, err := driver.Open(cfg.Library)
	check(t, err)
	d := &slowEvent{API: api, entered: make(chan struct{}), reset: make(chan struct{})}
	cfg.Driver = d
	e := open(t, cfg)
	s := e.devices[0].session.Load()
	d.armed.Store(true)
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
