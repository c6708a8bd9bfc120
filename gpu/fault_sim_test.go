//go:build sim

package gpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/internal/bench"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

// awaitState waits until a device is in a state.
func awaitState(t *testing.T, e *Engine, device int, want State) DeviceStats {
	t.Helper()
	var st DeviceStats
	eventually(t, func() bool {
		st = e.Stats()[device]
		return st.State == want && (want != StateOpen || e.devices[device].session.Load() != nil)
	}, func() string { return fmt.Sprintf("the device is %q (%s), want %q", st.State, st.LastError, want) })
	return st
}

// excused says whether an error means that the caller does without a device.
func excused(err error) bool {
	return err == ErrFault || err == ErrUnavailable || err == ErrLate || err == ErrBusy
}

// One call of the driver fails, each in turn, wherever it is made: when the engine opens, runs batches or closes. Every row then has
// a right result or an excuse, the device comes back, and nothing is left behind.
func TestEveryCallSiteFails(t *testing.T) {
	sim, cfg := simulated(t)
	g := newGenerator()
	kinds := []Operation{Encaps, Decaps, ServerExchange}
	var inputs, wants [3][]byte
	for i, op := range kinds {
		inputs[i], wants[i] = g.row(t, 653, op)
	}
	for _, call := range sim.Calls() {
		sites := 0
		for ; ; sites++ {
			sim.Reset()
			sim.SetSeed(*seed)
			sim.FailCall(0, call, sites, 1, int(driver.ErrInvalidValue), false)
			fired := func() bool { return sim.LastFault() != "" }
			e, err := Open(cfg)
			if err != nil {
				if !fired() && call != "cuInit" {
					t.Fatalf("%s, site %d: %v", call, sites, err)
				}
				if st := sim.Stats(0); st.Leaks() {
					t.Errorf("%s, site %d: Open failed (%v) and left %+v", call, sites, err, st)
				}
				if call == "cuInit" {
					break
				}
				continue
			}
			for range 2 {
				for i, op := range kinds {
					got, status, err := do(t.Context(), e, kind(t, e, 653, op), inputs[i])
					if err != nil && (!excused(err) || !fired()) || err == nil && (status != 0 || !bytes.Equal(got, wants[i])) {
						t.Errorf("%s, site %d: %v: status %d, %v", call, sites, op, status, err)
					}
				}
			}
			st := awaitState(t, e, 0, StateOpen)
			if st.Faults > 1 || st.Reopened != st.Faults || st.Faults == 1 && !strings.Contains(st.LastError, call) {
				t.Errorf("%s, site %d: %+v", call, sites, st)
			}
			if err := e.Close(); err != nil && !fired() {
				t.Errorf("%s, site %d: %v", call, sites, err)
			}
			if st := sim.Stats(0); st.Leaks() {
				t.Errorf("%s, site %d: left %+v", call, sites, st)
			}
			if !fired() {
				break
			}
		}
		if sites > 0 {
			t.Logf("%s failed at %d sites", call, sites)
		}
	}
}

// crowd sends rows from many goroutines at once, and counts those that got a result, all of which must be right.
func crowd(t *testing.T, e *Engine, callers, each int) (served int) {
	t.Helper()
	g := newGenerator()
	k := kind(t, e, 653, Encaps)
	input, want := g.row(t, 653, Encaps)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				got, status, err := do(context.Background(), e, k, input)
				switch {
				case err == nil && status == 0 && bytes.Equal(got, want):
					mu.Lock()
					served++
					mu.Unlock()
				case !excused(err):
					t.Errorf("status %d, %v", status, err)
				}
			}
		})
	}
	wg.Wait()
	return served
}

// A kernel faults: where the reset helps the device is back, where it does not it stays closed and says that a restart is needed.
func TestStickyFault(t *testing.T) {
	for _, permanent := range []bool{false, true} {
		t.Run(fmt.Sprintf("permanent=%v", permanent), func(t *testing.T) {
			sim, cfg := simulated(t)
			var logged bytes.Buffer
			cfg.Logger = slog.New(slog.NewTextHandler(&logged, nil))
			cfg.Workers = 2
			e := open(t, cfg)
			sim.SetFaultsPermanent(0, permanent)
			sim.FaultLaunch(0, 2, 1, int(driver.ErrIllegalAddress))
			crowd(t, e, 8, 4)
			if !permanent {
				st := awaitState(t, e, 0, StateOpen)
				if st.Faults != 1 || st.Resets != 1 || st.Reopened != 1 || !strings.Contains(st.LastError, "CUDA_ERROR_ILLEGAL_ADDRESS (700)") {
					t.Errorf("%+v", st)
				}
				if n := crowd(t, e, 4, 2); n == 0 {
					t.Error("nothing was served after the reset")
				}
				return
			}
			st := awaitState(t, e, 0, StateClosed)
			if st.Faults != 1 || st.Resets != 1 || st.Reopened != 0 || !strings.Contains(st.LastError, errRestart.Error()) {
				t.Errorf("%+v", st)
			}
			if n := crowd(t, e, 4, 2); n != 0 {
				t.Error("a closed device served")
			}
			check(t, e.Close())
			for _, line := range []string{"the device is open", "the device failed; operations run without it", "the device is closed"} {
				if n := strings.Count(logged.String(), line); n != 1 {
					t.Errorf("%q was logged %d times", line, n)
				}
			}
		})
	}
}

// A batch does not end: its callers get away, and the device is reset.
func TestHang(t *testing.T) {
	sim, cfg := simulated(t)
	cfg.Hang = 20 * time.Millisecond
	cfg.Workers = 2
	e := open(t, cfg)
	sim.HangLaunch(0, 1)
	crowd(t, e, 8, 2)
	st := awaitState(t, e, 0, StateOpen)
	if st.Hangs < 1 || st.Resets < 1 || st.Reopened < 1 || st.LastError != errHang.Error() {
		t.Errorf("%+v", st)
	}
}

// The engine is closed while a batch hangs.
func TestCloseHanging(t *testing.T) {
	sim, cfg := simulated(t)
	cfg.Hang = 20 * time.Millisecond
	e := open(t, cfg)
	sim.HangLaunch(0, 0)
	g := newGenerator()
	input, _ := g.row(t, 653, Encaps)
	ticket := reserve(t, e, kind(t, e, 653, Encaps), input)
	awaitRunning(t, e)
	closed := make(chan error)
	go func() { closed <- e.Close() }()
	if err := ticket.Wait(context.Background()); err != ErrFault {
		t.Errorf("%v, want ErrFault", err)
	}
	ticket.Release()
	check(t, <-closed)
}

// A batch is late: its callers go, the device is passed over, and is back with the batch.
func TestLate(t *testing.T) {
	sim, cfg := simulated(t)
	var logged bytes.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	e := open(t, cfg)
	k := kind(t, e, 653, Encaps)
	g := newGenerator()
	input, _ := g.row(t, 653, Encaps)
	sim.Hold(0, true)
	running := reserve(t, e, k, input)
	awaitRunning(t, e)
	waiting, err := e.Reserve(k, 1) // its batch never starts
	check(t, err)
	for _, ticket := range []*Ticket{&running, &waiting} {
		ticket.batch.expire() // what the timer does
	}
	for _, ticket := range []*Ticket{&running, &waiting} {
		if err := ticket.Wait(context.Background()); err != ErrLate {
			t.Errorf("%v, want ErrLate", err)
		}
		ticket.Release()
	}
	if _, err := e.Reserve(k, 1); err != ErrUnavailable || e.Available() {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	if st := e.Stats()[0]; st.State != StateStalled || st.Late != 2 || st.Faults != 0 {
		t.Errorf("%+v", st)
	}
	sim.Hold(0, false)
	awaitState(t, e, 0, StateOpen)
	awaitIdle(t, e)
	s := e.devices[0].session.Load()
	for _, b := range s.buffers {
		if !bytes.Equal(b.memory, make([]byte, len(b.memory))) {
			t.Error("what late callers left is not wiped")
		}
	}
	check(t, e.Close())
	for _, line := range []string{"a batch is late", "the late batch is back"} {
		if n := strings.Count(logged.String(), line); n != 1 {
			t.Errorf("%q was logged %d times", line, n)
		}
	}
}

// No row waits for longer than it may, whether its batch has begun or not.
func TestMaxWait(t *testing.T) {
	sim, cfg := simulated(t)
	cfg.MaxWait = time.Millisecond
	e := open(t, cfg)
	sim.Hold(0, true)
	if n := crowd(t, e, 4, 2); n != 0 {
		t.Errorf("%d rows were served", n)
	}
	sim.Hold(0, false)
	awaitState(t, e, 0, StateOpen)
	awaitIdle(t, e)
}

// A device falls off the bus and comes back.
func TestLost(t *testing.T) {
	sim, cfg := simulated(t)
	e := open(t, cfg)
	sim.Lose(0, int(driver.ErrDeviceUnavailable))
	if n := crowd(t, e, 4, 2); n != 0 {
		t.Errorf("a lost device served %d rows", n)
	}
	st := awaitState(t, e, 0, StateReopening)
	if st.Faults != 1 || st.Reopened != 0 || !strings.Contains(st.LastError, "CUDA_ERROR_DEVICE_UNAVAILABLE") {
		t.Errorf("%+v", st)
	}
	sim.Lose(0, 0)
	awaitState(t, e, 0, StateOpen)
	if n := crowd(t, e, 4, 2); n == 0 {
		t.Error("nothing was served after it came back")
	}
	if st := e.Stats()[0]; st.Reopened != 1 || st.Faults != 1 {
		t.Errorf("%+v", st)
	}
	sim.Lose(0, int(driver.ErrDeviceUnavailable))
	crowd(t, e, 2, 1)
	check(t, e.Close()) // while it is away
}

// A device that does not open at first is opened later; Open fails only if there is none.
func TestOneOfTwoOpens(t *testing.T) {
	sim, cfg := simulated(t)
	sim.SetDeviceCount(2)
	sim.FailCall(1, "cuMemAlloc", 0, 1, int(driver.ErrOutOfMemory), false)
	e := open(t, cfg)
	if st := awaitState(t, e, 1, StateOpen); st.Reopened != 1 || st.Faults != 1 || !strings.Contains(st.LastError, "OUT_OF_MEMORY") {
		t.Errorf("%+v", st)
	}
	check(t, e.Close())
	for device := range 2 {
		sim.FailCall(device, "cuMemAlloc", 0, 1, int(driver.ErrOutOfMemory), false)
	}
	if _, err := Open(cfg); !errors.Is(err, driver.ErrOutOfMemory) || !strings.Contains(err.Error(), "device 1") {
		t.Errorf("%v", err)
	}
}

// One of two devices fails under load; what comes goes to the other.
func TestOtherDevice(t *testing.T) {
	sim, cfg := simulated(t)
	sim.SetDeviceCount(2)
	cfg.Backoff = never
	e := open(t, cfg)
	sim.Lose(0, int(driver.ErrDeviceUnavailable))
	crowd(t, e, 8, 4)
	g := newGenerator()
	k := kind(t, e, 653, Encaps)
	// Device 0 may not have been asked yet.
	for e.devices[0].session.Load() != nil {
		input, _ := g.row(t, 653, Encaps)
		ticket, err := e.devices[0].session.Load().reserve(k, 1)
		if err != nil {
			break
		}
		copy(ticket.Input(0), input)
		ticket.Submit()
		if err := ticket.Wait(context.Background()); err != ErrFault {
			t.Errorf("%v, want ErrFault", err)
		}
		ticket.Release()
	}
	before := e.Stats()[1].Rows
	if n := crowd(t, e, 4, 2); n != 8 {
		t.Errorf("%d of 8 rows were served", n)
	}
	if st := e.Stats()[1]; st.Rows != before+8 {
		t.Errorf("%+v", st)
	}
}

// Rows go to the device that is expected to be done first: by what it has taken so far and by what lies before it.
func TestExpectedFirst(t *testing.T) {
	sim, cfg := simulated(t)
	sim.SetDeviceCount(2)
	e := open(t, cfg)
	k := kind(t, e, 653, Encaps)
	choose := func() int { i, _ := e.best(k, 0); return i }
	e.devices[0].latency[k.index].Add(1, 100)
	if choose() != 1 {
		t.Error("a device without measurements was not tried")
	}
	e.devices[1].latency[k.index].Add(1, 250)
	if choose() != 0 {
		t.Error("the faster device was not chosen")
	}
	s := e.devices[0].session.Load()
	s.open.Add(1)
	if choose() != 0 {
		t.Error("200 is less than 250")
	}
	s.open.Add(1)
	if choose() != 1 {
		t.Error("300 is more than 250")
	}
	s.open.Add(-2)
	if i, _ := e.best(k, 1); i != 1 {
		t.Error("a device that was tried was chosen again")
	}
}

// A probe with another result refuses the device; so does Refuse, for good.
func TestRefused(t *testing.T) {
	_, cfg := simulated(t)
	g := newGenerator()
	for _, op := range []Operation{Encaps, Decaps} {
		input, output := g.row(t, 653, op)
		cfg.Probes = append(cfg.Probes, Probe{Set: 653, Operation: op, Input: input, Output: output})
	}
	e := open(t, cfg)
	e.Refuse(0, errors.New("row 5"))
	if n := crowd(t, e, 2, 2); n != 0 {
		t.Error("a refused device served")
	}
	if st := e.Stats()[0]; st.State != StateRefused || !strings.Contains(st.LastError, "row 5") || st.Faults != 0 {
		t.Errorf("%+v", st)
	}
	check(t, e.Close())

	cfg.Probes[1].Output[7] ^= 1
	if _, err := Open(cfg); !errors.Is(err, errMismatch) || !strings.Contains(err.Error(), "CTRU-Prime-653 decaps") {
		t.Errorf("%v", err)
	}
}

// What a device computes after it was found out is not handed out, nor counted, whatever has ended its session before.
func TestRefusedInFlight(t *testing.T) {
	for _, ended := range []bool{false, true} {
		t.Run(fmt.Sprintf("ended=%v", ended), func(t *testing.T) {
			sim, cfg := simulated(t)
			e := open(t, cfg)
			input, _ := newGenerator().row(t, 653, Encaps)
			sim.CorruptCopy(0, 0, simctl.Forever, 300, 1)
			sim.Hold(0, true)
			ticket := reserve(t, e, kind(t, e, 653, Encaps), input)
			awaitRunning(t, e)
			if ended {
				e.devices[0].session.Load().fail(driver.ErrInvalidValue)
			}
			e.Refuse(0, errors.New("row 5"))
			sim.Hold(0, false)
			if err := ticket.Wait(context.Background()); err != ErrFault {
				t.Errorf("%v, want ErrFault", err)
			}
			ticket.Release()
			check(t, e.Close())
			if st := e.Stats()[0]; st.State != StateRefused || st.Batches != 0 || st.Rows != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// A context that others in the process use is not taken from them.
func TestNoResetOfOthers(t *testing.T) {
	sim, cfg := simulated(t)
	e := open(t, cfg)
	other := open(t, cfg)
	sim.FaultLaunch(0, 0, 1, int(driver.ErrIllegalAddress))
	crowd(t, e, 2, 1)
	if st := awaitState(t, e, 0, StateClosed); st.Resets != 0 || !strings.Contains(st.LastError, "others in this process use its context") {
		t.Errorf("%+v", st)
	}
	crowd(t, other, 2, 1)
	if st := awaitState(t, other, 0, StateOpen); st.Resets != 1 { // it is alone by now
		t.Errorf("%+v", st)
	}
}

// Nor is one that the program used before, in ways that the engine does not know. Once the program has left it, it is the engine's to reset.
func TestNoResetOfProgram(t *testing.T) {
	sim, cfg := simulated(t)
	api, err := driver.Open(cfg.Library)
	check(t, err)
	ctx, err := api.PrimaryCtxRetain(0)
	check(t, err)
	e := open(t, cfg)
	sim.FaultLaunch(0, 0, 1, int(driver.ErrIllegalAddress))
	crowd(t, e, 2, 1)
	if st := awaitState(t, e, 0, StateClosed); st.Resets != 0 || !strings.Contains(st.LastError, "others in this process use its context") {
		t.Errorf("%+v", st)
	}
	check(t, e.Close())
	func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		check(t, api.CtxSetCurrent(ctx)) // it is there still, with the error that the program has to see
		if _, _, err := api.MemInfo(); !errors.Is(err, driver.ErrIllegalAddress) {
			t.Errorf("%v, want the kernel's fault", err)
		}
		check(t, api.CtxSetCurrent(0))
	}()
	check(t, api.PrimaryCtxRelease(0))

	e = open(t, cfg)
	sim.FaultLaunch(0, 0, 1, int(driver.ErrIllegalAddress))
	crowd(t, e, 2, 1)
	if st := awaitState(t, e, 0, StateOpen); st.Resets != 1 {
		t.Errorf("%+v", st)
	}
}

func TestTooOld(t *testing.T) {
	sim, cfg := simulated(t)
	sim.SetCompute(0, 7, 5)
	if _, err := Open(cfg); !errors.Is(err, driver.ErrTooOld) {
		t.Errorf("%v", err)
	}
	sim.SetDeviceCount(0)
	if _, err := Open(cfg); err == nil {
		t.Error("no error without a device")
	}
	sim.SetDeviceCount(1)
	cfg.Devices = []int{1}
	if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), "device 1; this machine has 1") {
		t.Errorf("%v", err)
	}
}

// A lostDevice cannot be opened while it is lost, and counts who tries.
type lostDevice struct {
	*bench.Idle
	lost  atomic.Bool
	tried atomic.Int32
}

func (d *lostDevice) PrimaryCtxRetain(device int) (driver.Context, error) {
	d.tried.Add(1)
	if d.lost.Load() {
		return 0, &driver.Error{Call: "cuDevicePrimaryCtxRetain", Result: driver.ErrDeviceUnavailable}
	}
	return d.Idle.PrimaryCtxRetain(device)
}

// Whoever opens a device again pauses before, twice as long each time and a minute at most, until it has served. The bubble's clock makes the pauses.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &lostDevice{Idle: new(bench.Idle)}
		e := open(t, Config{Driver: d, Sets: []int{653}, Logger: slog.New(slog.DiscardHandler)})
		reopens := func(want ...time.Duration) {
			t.Helper()
			before := time.Now()
			d.tried.Store(0)
			e.devices[0].session.Load().fail(errHang)
			for i := range want {
				d.lost.Store(i < len(want)-1)
				time.Sleep(want[i] - time.Nanosecond)
				synctest.Wait()
				if st, tried := e.Stats()[0], int(d.tried.Load()); tried != i || st.State != StateReopening {
					t.Fatalf("tried %d times after %v, want %d; the device is %q", tried, time.Since(before), i, st.State)
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if tried := int(d.tried.Load()); tried != i+1 {
					t.Fatalf("tried %d times after %v, want %d", tried, time.Since(before), i+1)
				}
			}
			if st := e.Stats()[0]; st.State != StateOpen {
				t.Errorf("the device is %q in the end", st.State)
			}
		}
		const s = time.Second
		reopens(s, 2*s, 4*s, 8*s)
		reopens(16*s, 32*s, 60*s, 60*s) // it has not served
		e.devices[0].batches.Add(1)
		reopens(s)
		reopens(2 * s)
		if st := e.Stats()[0]; st.Faults != 4 || st.Reopened != 4 {
			t.Errorf("%+v", st)
		}
	})
}
