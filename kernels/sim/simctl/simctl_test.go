//go:build sim

package simctl_test

import (
	"bytes"
	"errors"
	"runtime/debug"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
	"github.com/ctrutls/ctrutls/kernels/sim/testkernels"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long is a wait that ends early when all is well.
const long = time.Minute

var single = driver.Shape{Block: driver.Dim{X: 64}}

// launchAdd enqueues b = a + a on 64 words.
func launchAdd(t *testing.T, h *testkernels.Harness, a, b driver.DevicePtr) {
	t.Helper()
	h.Check(h.Launch("add", single, new(driver.Params).Ptr(a).Ptr(a).Ptr(b).Int32(64)))
}

func wantResult(t *testing.T, err error, want driver.Result) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want CUDA error %d", err, want)
	}
}

// resetContext destroys the context and makes a new one current.
func resetContext(h *testkernels.Harness) {
	h.T.Helper()
	h.Check(h.API.PrimaryCtxReset(0))
	ctx, err := h.API.PrimaryCtxRetain(0)
	h.Check(err)
	h.Check(h.API.CtxSetCurrent(ctx))
}

func TestGate(t *testing.T) {
	h := testkernels.New(t)
	in := testkernels.RandomWords(t, 64)
	a, b := h.Upload(in), h.Alloc(256)
	pinned, err := h.API.HostAlloc(256)
	h.Check(err)
	h.Check(h.API.StreamSynchronize(h.Stream))
	before := h.Sim.Stats(0)
	h.Sim.Hold(0, true)
	launchAdd(t, h, a, b)
	h.Check(h.API.CopyToHost(pinned, b, h.Stream))
	if !h.Sim.WaitQueued(0, 2, long) || h.Sim.WaitQueued(0, 3, 0) {
		t.Error("two operations should be queued")
	}
	if done, err := h.API.StreamQuery(h.Stream); done || err != nil {
		t.Errorf("the stream is held: %v, %v", done, err)
	}
	if st := h.Sim.Stats(0); st.Queued != 2 || st.Launches != before.Launches {
		t.Errorf("%+v", st)
	}
	// One operation passes: the launch.
	event, err := h.API.EventCreate(0)
	h.Check(err)
	h.Sim.Pass(0, 1)
	for h.Sim.Stats(0).Launches == before.Launches {
		time.Sleep(time.Millisecond)
	}
	if st := h.Sim.Stats(0); st.Queued != 1 || st.CopiesToHost != before.CopiesToHost {
		t.Errorf("after one pass: %+v", st)
	}
	h.Sim.Hold(0, false)
	h.Check(h.API.StreamSynchronize(h.Stream))
	for i, v := range testkernels.Words(pinned) {
		if v != 2*in[i] {
			t.Fatalf("word %d is %#x", i, v)
		}
	}
	h.Check(h.API.EventDestroy(event))
	h.Check(h.API.HostFree(pinned))
}

func TestHoldOneStream(t *testing.T) {
	h := testkernels.New(t)
	held, err := h.API.StreamCreate(0)
	h.Check(err)
	p := h.Alloc(64)
	h.Sim.HoldStream(0, uintptr(held), true)
	h.Check(h.API.MemsetAsync(p, 1, 64, held))
	h.Check(h.API.MemsetAsync(p, 2, 64, h.Stream))
	h.Check(h.API.StreamSynchronize(h.Stream))
	if done, err := h.API.StreamQuery(held); done || err != nil {
		t.Errorf("the stream is held: %v, %v", done, err)
	}
	h.Sim.HoldStream(0, uintptr(held), false)
	h.Check(h.API.StreamSynchronize(held))
	if got := h.Download(p, 1)[0]; got != 0x01010101 {
		t.Errorf("%#x", got)
	}
	h.Check(h.API.StreamDestroy(held))
}

func TestHang(t *testing.T) {
	h := testkernels.New(t)
	a, b := h.Upload(make([]uint32, 64)), h.Alloc(256)
	h.Sim.HangLaunch(0, 1)
	launchAdd(t, h, a, b)
	h.Check(h.API.StreamSynchronize(h.Stream))
	launchAdd(t, h, a, b)
	event, err := h.API.EventCreate(0)
	h.Check(err)
	h.Check(h.API.EventRecord(event, h.Stream))
	for !h.Sim.Hanging(0) {
		time.Sleep(time.Millisecond)
	}
	if done, err := h.API.EventQuery(event); done || err != nil {
		t.Errorf("behind a hanging launch: %v, %v", done, err)
	}
	h.Sim.ReleaseHang(0)
	h.Check(h.API.EventSynchronize(event))
	h.Check(h.API.EventDestroy(event))
}

// Destroying the context ends a launch that hangs, and whoever waits for it.
func TestResetEndsHang(t *testing.T) {
	h := testkernels.New(t)
	h.Sim.HangLaunch(0, 0)
	a := h.Upload(make([]uint32, 64))
	launchAdd(t, h, a, a)
	for !h.Sim.Hanging(0) {
		time.Sleep(time.Millisecond)
	}
	h.Check(h.API.PrimaryCtxReset(0))
	wantResult(t, h.API.StreamSynchronize(h.Stream), driver.ErrContextIsDestroyed)
	ctx, err := h.API.PrimaryCtxRetain(0)
	h.Check(err)
	h.Check(h.API.CtxSetCurrent(ctx))
	h.Sim.ClearFaults(0)
	h.Alloc(64)
}

func TestFaultLaunch(t *testing.T) {
	h := testkernels.New(t)
	a := h.Upload(make([]uint32, 64))
	h.Sim.FaultLaunch(0, 1, 1, int(driver.ErrIllegalAddress))
	launchAdd(t, h, a, a)
	h.Check(h.API.StreamSynchronize(h.Stream))
	// What lies behind the fault is not run.
	h.Sim.Hold(0, true)
	before := h.Sim.Stats(0)
	launchAdd(t, h, a, a)
	launchAdd(t, h, a, a)
	h.Sim.Hold(0, false)
	wantResult(t, h.API.StreamSynchronize(h.Stream), driver.ErrIllegalAddress)
	_, err := h.API.MemAlloc(1)
	wantResult(t, err, driver.ErrIllegalAddress)
	if st := h.Sim.Stats(0); st.Faults != 1 || st.Launches != before.Launches {
		t.Errorf("%d faults, %d launches", st.Faults, st.Launches-before.Launches)
	}
	if !strings.Contains(h.Sim.LastFault(), "add: fault injected by a test") {
		t.Errorf("reason: %s", h.Sim.LastFault())
	}
	resetContext(h)
}

func TestLose(t *testing.T) {
	h := testkernels.New(t)
	h.Sim.Hold(0, true)
	a := h.Upload(make([]uint32, 64))
	launchAdd(t, h, a, a)
	h.Sim.Lose(0, int(driver.ErrDeviceUnavailable))
	wantResult(t, h.API.StreamSynchronize(h.Stream), driver.ErrDeviceUnavailable)
	_, err := h.API.PrimaryCtxRetain(0)
	wantResult(t, err, driver.ErrDeviceUnavailable)
	_, err = h.API.DeviceInfo(0)
	wantResult(t, err, driver.ErrDeviceUnavailable)
	wantResult(t, h.API.PrimaryCtxReset(0), driver.ErrDeviceUnavailable)
	if n, err := h.API.DeviceCount(); n != 1 || err != nil {
		t.Errorf("%d devices, %v", n, err)
	}
	h.Sim.Lose(0, 0)
	h.Sim.Hold(0, false)
	h.Check(h.API.StreamSynchronize(h.Stream))
}

func TestSpoil(t *testing.T) {
	h := testkernels.New(t)
	h.Sim.Spoil(0, int(driver.ErrLaunchFailed), false)
	wantResult(t, h.API.CtxSynchronize(), driver.ErrLaunchFailed)
	resetContext(h)
	h.Check(h.API.CtxSynchronize())

	for name, spoil := range map[string]func(){
		"permanent": func() { h.Sim.Spoil(0, int(driver.ErrLaunchFailed), true) },
		"permanent faults": func() {
			h.Sim.SetFaultsPermanent(0, true)
			h.Sim.FaultLaunch(0, 0, 1, int(driver.ErrLaunchFailed))
			module, err := h.API.ModuleLoad(testkernels.PTX)
			h.Check(err)
			f, err := h.API.ModuleFunction(module, "no_parameters")
			h.Check(err)
			h.Check(h.API.Launch(f, driver.Shape{}, nil, 0))
		},
	} {
		spoil()
		wantResult(t, h.API.CtxSynchronize(), driver.ErrLaunchFailed)
		for range 3 {
			h.Check(h.API.PrimaryCtxReset(0))
			_, err := h.API.PrimaryCtxRetain(0)
			if !errors.Is(err, driver.ErrLaunchFailed) {
				t.Errorf("%s: %v", name, err)
			}
		}
		h.Sim.ClearFaults(0)
		ctx, err := h.API.PrimaryCtxRetain(0)
		h.Check(err)
		h.Check(h.API.CtxSetCurrent(ctx))
		h.Check(h.API.CtxSynchronize())
	}
}

func TestCorruptCopy(t *testing.T) {
	h := testkernels.New(t)
	pinned, err := h.API.HostAlloc(64)
	h.Check(err)
	p := h.Alloc(64)
	h.Check(h.API.MemsetAsync(p, 0x11, 64, h.Stream))
	h.Sim.CorruptCopy(0, 1, 2, 5, 0x40)
	clean := bytes.Repeat([]byte{0x11}, 64)
	corrupt := bytes.Clone(clean)
	corrupt[5] = 0x51
	for i, want := range [][]byte{clean, corrupt, corrupt, clean} {
		h.Check(h.API.CopyToHost(pinned, p, h.Stream))
		h.Check(h.API.StreamSynchronize(h.Stream))
		if !bytes.Equal(pinned, want) {
			t.Errorf("copy %d: %x", i, pinned)
		}
	}
	h.Check(h.API.HostFree(pinned))
}

func TestMemoryLimits(t *testing.T) {
	h := testkernels.New(t)
	h.Sim.SetMemory(0, 1000)
	info, err := h.API.DeviceInfo(0)
	h.Check(err)
	if info.Memory != 1000 {
		t.Errorf("%d bytes of memory", info.Memory)
	}
	p := h.Alloc(600)
	_, err = h.API.MemAlloc(401)
	wantResult(t, err, driver.ErrOutOfMemory)
	h.Alloc(400)
	h.Check(h.API.MemFree(p))
	h.Alloc(600)

	h.Sim.SetHostMemory(100)
	b, err := h.API.HostAlloc(100)
	h.Check(err)
	_, err = h.API.HostAlloc(1)
	wantResult(t, err, driver.ErrOutOfMemory)
	h.Check(h.API.HostFree(b))
}

// Copies that the driver refuses at once.
func TestWrongCopies(t *testing.T) {
	h := testkernels.New(t)
	p := h.Alloc(64)
	pinned, err := h.API.HostAlloc(64)
	h.Check(err)
	mapped, err := h.API.HostDevicePtr(pinned)
	h.Check(err)
	h.Check(h.API.MemsetAsync(p, 0, 64, h.Stream))
	for name, err := range map[string]error{
		"past the end of device memory":     h.API.CopyToDevice(p, make([]byte, 65), h.Stream),
		"before the start of device memory": h.API.CopyToDevice(p-1, pinned, h.Stream),
		"to no device memory":               h.API.CopyToDevice(1234567, pinned, h.Stream),
		"host address as the device's":      h.API.CopyToDevice(mapped, pinned, h.Stream),
		"from past the end":                 h.API.CopyToHost(pinned, p+1, h.Stream),
		"fill past the end":                 h.API.MemsetAsync(p+60, 0, 5, h.Stream),
	} {
		if !errors.Is(err, driver.ErrInvalidValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
	h.Sim.SetPageable(false)
	wantResult(t, h.API.CopyToDevice(p, make([]byte, 8), h.Stream), driver.ErrInvalidValue)
	wantResult(t, h.API.CopyToHost(make([]byte, 8), p, h.Stream), driver.ErrInvalidValue)
	if st := h.Sim.Stats(0); st.PageableCopies != 2 {
		t.Errorf("%d pageable copies", st.PageableCopies)
	}
	h.Check(h.API.CopyToHost(pinned, p, h.Stream))
	h.Check(h.API.StreamSynchronize(h.Stream))
	h.Check(h.API.HostFree(pinned))
}

// Memory that is freed while a copy from or to it waits is found when the copy runs.
func TestFreedUnderCopy(t *testing.T) {
	for name, freeHost := range map[string]bool{"device memory": false, "pinned memory": true} {
		t.Run(name, func(t *testing.T) {
			h := testkernels.New(t)
			p := h.Alloc(64)
			pinned, err := h.API.HostAlloc(64)
			h.Check(err)
			h.Sim.Hold(0, true)
			h.Check(h.API.CopyToDevice(p, pinned, h.Stream))
			if freeHost {
				h.Check(h.API.HostFree(pinned))
			} else {
				h.Check(h.API.MemFree(p))
			}
			h.Sim.Hold(0, false)
			wantResult(t, h.API.StreamSynchronize(h.Stream), driver.ErrIllegalAddress)
			if !strings.Contains(h.Sim.LastFault(), "was freed before the copy ran") {
				t.Errorf("reason: %s", h.Sim.LastFault())
			}
			resetContext(h)
		})
	}
}

// Host code that follows a device pointer faults, and so does what goes on using pinned memory after it is freed.
func TestHostAccess(t *testing.T) {
	h := testkernels.New(t)
	p := h.Upload(make([]uint32, 64))
	h.Check(h.API.StreamSynchronize(h.Stream))
	pinned, err := h.API.HostAlloc(100)
	h.Check(err)
	pinned[99] = 1
	h.Check(h.API.HostFree(pinned))
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for name, read := range map[string]func() byte{
		"device memory":       func() byte { return **(**byte)(unsafe.Pointer(&p)) },
		"freed pinned memory": func() byte { return pinned[0] },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("the host read %s", name)
				}
			}()
			t.Logf("%s: %d", name, read())
		}()
	}
}

func TestStats(t *testing.T) {
	h := testkernels.New(t)
	start := h.Sim.Stats(0)
	if start.Contexts != 1 || start.Streams != 1 || start.Modules != 1 || start.Events != 0 {
		t.Errorf("at the start: %+v", start)
	}
	p := h.Alloc(256)
	pinned, err := h.API.HostAlloc(256)
	h.Check(err)
	event, err := h.API.EventCreate(0)
	h.Check(err)
	stream, err := h.API.StreamCreate(0)
	h.Check(err)
	module, err := h.API.ModuleLoad(testkernels.PTX)
	h.Check(err)
	h.Check(h.API.CopyToHost(pinned, p, h.Stream)) // nothing has been written there
	h.Check(h.API.CopyToDevice(p, pinned, h.Stream))
	h.Check(h.API.CopyToHost(pinned[:100], p, h.Stream))
	h.Check(h.Launch("no_parameters", driver.Shape{Grid: driver.Dim{X: 7}}, nil))
	h.Check(h.API.StreamSynchronize(h.Stream))
	st := h.Sim.Stats(0)
	if st.DeviceAllocations != 1 || st.DeviceBytes != 256 || st.PinnedAllocations != 1 || st.PinnedBytes != 256 || st.Events != 1 || st.Streams != 2 ||
		st.Modules != 2 || st.Launches != 1 || st.Blocks != 7 || st.CopiesToHost != 2 || st.BytesToHost != 356 || st.CopiesToDevice != 1 ||
		st.BytesToDevice != 256 || st.UninitialisedCopies != 1 || st.Faults != 0 || st.Calls <= start.Calls || !st.Leaks() {
		t.Errorf("%+v", st)
	}
	h.Check(h.API.ModuleUnload(module))
	h.Check(h.API.StreamDestroy(stream))
	h.Check(h.API.EventDestroy(event))
	h.Check(h.API.HostFree(pinned))
	h.Check(h.API.MemFree(p))
	if st := h.Sim.Stats(0); st.DeviceBytes != 0 || st.PinnedBytes != 0 || st.Events != 0 || st.Streams != 1 || st.Modules != 1 {
		t.Errorf("after all is freed: %+v", st)
	}
}

// The PTX is held against the kernels that the library was built from.
func TestPTXDrift(t *testing.T) {
	h := testkernels.New(t)
	for name, c := range map[string]struct{ from, to, reason string }{
		"an entry that was renamed": {".entry add(", ".entry plus(", "entry plus is not compiled into the simulator"},
		"a parameter that grew":     {".param .u32 add_param_3", ".param .u64 add_param_3", "entry add has other parameters"},
		"a parameter that is gone":  {".param .u64 add_param_2,\n", "", "entry add has other parameters"},
	} {
		changed := bytes.Replace(testkernels.PTX, []byte(c.from), []byte(c.to), 1)
		if bytes.Equal(changed, testkernels.PTX) {
			t.Errorf("%s: the PTX has no %q", name, c.from)
		}
		_, err := h.API.ModuleLoad(changed)
		if !errors.Is(err, driver.ErrInvalidPTX) || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A slower device takes at least the time that it was given.
func TestPace(t *testing.T) {
	h := testkernels.New(t)
	h.Sim.SetPace(0, simctl.Pace{Launch: 20 * time.Millisecond, Copy: 10 * time.Millisecond, Slowdown: 2})
	p := h.Alloc(64)
	pinned, err := h.API.HostAlloc(64)
	h.Check(err)
	start, err := h.API.EventCreate(0)
	h.Check(err)
	end, err := h.API.EventCreate(0)
	h.Check(err)
	h.Check(h.API.EventRecord(start, h.Stream))
	h.Check(h.API.CopyToDevice(p, pinned, h.Stream))
	h.Check(h.Launch("no_parameters", driver.Shape{}, nil))
	h.Check(h.API.CopyToHost(pinned, p, h.Stream))
	h.Check(h.API.EventRecord(end, h.Stream))
	h.Check(h.API.EventSynchronize(end))
	elapsed, err := h.API.EventElapsed(start, end)
	h.Check(err)
	if elapsed < 40*time.Millisecond {
		t.Errorf("took %v", elapsed)
	}
	h.Check(h.API.EventDestroy(start))
	h.Check(h.API.EventDestroy(end))
	h.Check(h.API.HostFree(pinned))
}

func TestArgumentsThatMakeNoSense(t *testing.T) {
	_, sim := testkernels.Open(t)
	for name, call := range map[string]func(){
		"device":       func() { sim.Hold(simctl.MaxDevices, true) },
		"device count": func() { sim.SetDeviceCount(simctl.MaxDevices + 1) },
		"call":         func() { sim.FailCall(0, "cuNoSuchCall", 0, 1, 1, false) },
		"result":       func() { sim.FailCall(0, "cuMemAlloc", 0, 1, 0, false) },
		"stream":       func() { sim.HoldStream(0, 12345, true) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			call()
		}()
	}
}

func TestOpenOtherLibraries(t *testing.T) {
	if _, err := simctl.Open("libm.so.6"); err == nil || !strings.Contains(err.Error(), "libm.so.6 is not the simulator") {
		t.Errorf("got %v", err)
	}
	if _, err := simctl.Open("/no/such/library.so"); err == nil || !strings.Contains(err.Error(), "cannot load") {
		t.Errorf("got %v", err)
	}
	t.Chdir(t.TempDir())
	if _, err := simctl.Library(); err == nil {
		t.Error("found a library outside the module")
	}
}
