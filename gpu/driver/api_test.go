//go:build sim || gputest

// These tests run against the simulator and against a card alike.
package driver_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels/sim/testkernels"
)

func TestDevices(t *testing.T) {
	api, _ := testkernels.Open(t)
	if v := api.Version(); v < 11000 || v > 99999 {
		t.Errorf("version %d", v)
	}
	n, err := api.DeviceCount()
	if err != nil || n < 1 {
		t.Fatalf("%d devices, %v", n, err)
	}
	for i := range n {
		info, err := api.DeviceInfo(i)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", info)
		if info.Name == "" || len(info.PCIBusID) < 12 || info.Memory < 1<<20 || info.Major < 5 || info.Minor < 0 || info.Multiprocessors < 1 ||
			info.AsyncEngines < 1 || info.MaxSharedPerBlock < 48<<10 {
			t.Errorf("device %d: %+v", i, info)
		}
	}
	if _, err := api.DeviceInfo(n); !errors.Is(err, driver.ErrInvalidDevice) {
		t.Errorf("device %d: %v", n, err)
	}
	if _, err := api.PrimaryCtxRetain(n); !errors.Is(err, driver.ErrInvalidDevice) {
		t.Errorf("context of device %d: %v", n, err)
	}
}

func TestNoContext(t *testing.T) {
	api, _ := testkernels.Open(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := api.CtxSetCurrent(0); err != nil {
		t.Fatal(err)
	}
	_, err := api.MemAlloc(16)
	if !errors.Is(err, driver.ErrInvalidContext) || err.Error() != "driver: cuMemAlloc: CUDA_ERROR_INVALID_CONTEXT (201): invalid device context" {
		t.Errorf("MemAlloc without a context: %v", err)
	}
}

// A primary context is active as long as somebody retains it.
func TestContextActive(t *testing.T) {
	api, _ := testkernels.Open(t)
	check := func(want bool) {
		t.Helper()
		if active, err := api.PrimaryCtxActive(0); err != nil || active != want {
			t.Errorf("active: %v (%v), want %v", active, err, want)
		}
	}
	check(false)
	if _, err := api.PrimaryCtxRetain(0); err != nil {
		t.Fatal(err)
	}
	check(true)
	if err := api.PrimaryCtxRelease(0); err != nil {
		t.Fatal(err)
	}
	check(false)
}

func TestModule(t *testing.T) {
	h := testkernels.New(t)
	f := h.Function("geometry")
	info, err := h.API.FunctionInfo(f)
	h.Check(err)
	t.Logf("%+v", info)
	if info.MaxThreads != 96 || info.SharedBytes != 0 || info.PTXVersion != 80 || info.BinaryVersion < 80 || info.Registers < 1 {
		t.Errorf("geometry: %+v", info)
	}
	info, err = h.API.FunctionInfo(h.Function("ops_barriers"))
	h.Check(err)
	if info.SharedBytes != 768 {
		t.Errorf("ops_barriers has %d bytes of static shared memory, want 768", info.SharedBytes)
	}
	if _, err := h.API.ModuleFunction(h.Module, "no_such_kernel"); !errors.Is(err, driver.ErrNotFound) || !strings.HasSuffix(err.Error(), ": no_such_kernel") {
		t.Errorf("a function that is not there: %v", err)
	}
	second, err := h.API.ModuleLoad(testkernels.PTX)
	h.Check(err)
	h.Check(h.API.ModuleUnload(second))

	broken := bytes.Replace(testkernels.PTX, []byte("ld.param.u64"), []byte("ld.nonsense.u64"), 1)
	if h.Sim != nil {
		broken = bytes.Replace(testkernels.PTX, []byte(".entry add("), []byte(".entry sub("), 1)
	}
	_, err = h.API.ModuleLoad(broken)
	var e *driver.Error
	if !errors.Is(err, driver.ErrInvalidPTX) || !errors.As(err, &e) || e.Detail == "" {
		t.Errorf("broken PTX: %v", err)
	}
	t.Log(err)
	if _, err := h.API.ModuleLoad([]byte("garbage")); err == nil || err.Error() != "driver: not PTX: no .version and .target directives" {
		t.Errorf("garbage: %v", err)
	}
	tooNew := bytes.Replace(testkernels.PTX, []byte(".target sm_80"), []byte(".target sm_999"), 1)
	if _, err := h.API.ModuleLoad(tooNew); !errors.Is(err, driver.ErrTooOld) || !strings.Contains(err.Error(), "99.9 or later is needed") {
		t.Errorf("PTX for a later device: %v", err)
	}
}

func TestOccupancyAndDynamicShared(t *testing.T) {
	h := testkernels.New(t)
	f := h.Function("reverse")
	device, err := h.API.DeviceInfo(0)
	h.Check(err)
	n, err := h.API.Occupancy(f, 128, 0)
	h.Check(err)
	if n < 2 {
		t.Errorf("%d blocks of 128 threads", n)
	}
	most := device.MaxSharedPerBlock
	shape := driver.Shape{Block: driver.Dim{X: 256}, Shared: most}
	in := testkernels.RandomWords(t, most/4)
	out := h.Alloc(most)
	p := new(driver.Params).Ptr(h.Upload(in)).Ptr(out).Int32(int32(most))
	if err := h.API.Launch(f, shape, p, h.Stream); !errors.Is(err, driver.ErrInvalidValue) {
		t.Errorf("%d bytes of dynamic shared memory without leave: %v", most, err)
	}
	if err := h.API.SetMaxDynamicShared(f, most+1); !errors.Is(err, driver.ErrInvalidValue) {
		t.Errorf("one byte too many: %v", err)
	}
	h.Check(h.API.SetMaxDynamicShared(f, most))
	info, err := h.API.FunctionInfo(f)
	h.Check(err)
	if info.MaxDynamicShared != most {
		t.Errorf("MaxDynamicShared is %d, want %d", info.MaxDynamicShared, most)
	}
	if n, err := h.API.Occupancy(f, 256, most); err != nil || n != 1 {
		t.Errorf("%d blocks with all shared memory, %v", n, err)
	}
	h.Check(h.API.Launch(f, shape, p, h.Stream))
	got := h.Download(out, len(in))
	for i, v := range got {
		if v != in[len(in)-1-i] {
			t.Fatalf("word %d is %#x", i, v)
		}
	}
}

func TestMemory(t *testing.T) {
	h := testkernels.New(t)
	free, total, err := h.API.MemInfo()
	h.Check(err)
	if free == 0 || free > total {
		t.Errorf("%d of %d bytes free", free, total)
	}
	const n = 1<<20 + 3
	p := h.Alloc(n)
	if p%256 != 0 {
		t.Errorf("%#x is not aligned", p)
	}
	pinned, err := h.API.HostAlloc(n)
	h.Check(err)
	if len(pinned) != n || cap(pinned) != n {
		t.Fatalf("%d bytes, capacity %d", len(pinned), cap(pinned))
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)})
	want := make([]byte, n)
	_, _ = r.Read(want)
	copy(pinned, want)
	h.Check(h.API.CopyToDevice(p, pinned, h.Stream))
	h.Check(h.API.StreamSynchronize(h.Stream))
	clear(pinned)
	h.Check(h.API.CopyToHost(pinned[:n-100], p.Offset(100), h.Stream))
	h.Check(h.API.StreamSynchronize(h.Stream))
	if !bytes.Equal(pinned[:n-100], want[100:]) {
		t.Error("pinned memory came back changed")
	}

	h.Check(h.API.MemsetAsync(p.Offset(5), 0xab, 7, h.Stream))
	pageable := make([]byte, 16)
	h.Check(h.API.CopyToHost(pageable, p, h.Stream))
	h.Check(h.API.StreamSynchronize(h.Stream))
	expected := append(append(bytes.Clone(want[:5]), bytes.Repeat([]byte{0xab}, 7)...), want[12:16]...)
	if !bytes.Equal(pageable, expected) {
		t.Errorf("after the fill: %x, want %x", pageable, expected)
	}

	// Nothing to copy is fine.
	h.Check(h.API.CopyToHost(nil, p, h.Stream))
	h.Check(h.API.CopyToDevice(p, nil, h.Stream))
	h.Check(h.API.MemsetAsync(p, 1, 0, h.Stream))
	h.Check(h.API.HostFree(pinned))
	h.Check(h.API.MemFree(p))

	if _, err := h.API.MemAlloc(1 << 50); !errors.Is(err, driver.ErrOutOfMemory) {
		t.Errorf("a petabyte: %v", err)
	}
	if _, err := h.API.MemAlloc(0); !errors.Is(err, driver.ErrInvalidValue) {
		t.Errorf("nothing: %v", err)
	}
	if err := h.API.MemFree(p); err == nil {
		t.Error("freed twice")
	}
}

func TestLaunch(t *testing.T) {
	h := testkernels.New(t)
	out := h.Alloc(48)
	p := new(driver.Params).Ptr(out).Int32(-5).Uint32(65535).Int32(-7).Uint32(1 << 31).Int64(-9).Uint64(1 << 63)
	h.Check(h.Launch("parameters", driver.Shape{}, p))
	want := []uint64{^uint64(4), 65535, ^uint64(6), 1 << 31, ^uint64(8), 1 << 63}
	got := h.Download(out, 12)
	for i, v := range want {
		if g := uint64(got[2*i]) | uint64(got[2*i+1])<<32; g != v {
			t.Errorf("parameter %d: %#x, want %#x", i, g, v)
		}
	}
	h.Check(h.Launch("no_parameters", driver.Shape{Grid: driver.Dim{X: 3}, Block: driver.Dim{X: 64}}, nil))
	h.Check(h.Launch("no_parameters", driver.Shape{}, new(driver.Params)))
	h.Check(h.API.StreamSynchronize(h.Stream))

	for name, shape := range map[string]driver.Shape{
		"2048 threads":           {Block: driver.Dim{X: 2048}},
		"over the launch bounds": {Block: driver.Dim{X: 128}},
		"a grid too high":        {Grid: driver.Dim{Y: 1 << 20}},
	} {
		if err := h.Launch("geometry", shape, new(driver.Params).Ptr(out).Int32(0)); !errors.Is(err, driver.ErrInvalidValue) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A refused launch spoils nothing.
	h.Check(h.API.CtxSynchronize())
}

// Every element of a grid in three dimensions is visited once.
func TestGeometry(t *testing.T) {
	h := testkernels.New(t)
	for _, shape := range []driver.Shape{
		{Grid: driver.Dim{X: 1}, Block: driver.Dim{X: 1}},
		{Grid: driver.Dim{X: 5}, Block: driver.Dim{X: 33}},
		{Grid: driver.Dim{X: 3, Y: 2, Z: 2}, Block: driver.Dim{X: 4, Y: 3, Z: 2}},
	} {
		const n = 1000
		out := h.Alloc(16 * n)
		h.Check(h.Launch("geometry", shape, new(driver.Params).Ptr(out).Int32(n)))
		got := h.Download(out, 4*n)
		volume := func(d driver.Dim) uint32 { return d.X * max(d.Y, 1) * max(d.Z, 1) }
		blocks, threads := volume(shape.Grid), volume(shape.Block)
		for i := range uint32(n) {
			at := i % (blocks * threads)
			want := [4]uint32{at / threads, at % threads, blocks, threads}
			if [4]uint32(got[4*i:]) != want {
				t.Fatalf("%+v: element %d: %v, want %v", shape, i, got[4*i:4*i+4], want)
			}
		}
	}
}

func TestStreamsAndEvents(t *testing.T) {
	h := testkernels.New(t)
	second, err := h.API.StreamCreate(-1)
	h.Check(err)
	event, err := h.API.EventCreate(driver.EventBlocking)
	h.Check(err)
	start, err := h.API.EventCreate(0)
	h.Check(err)
	untimed, err := h.API.EventCreate(driver.EventBlocking | driver.EventNoTiming)
	h.Check(err)

	// An event that was never recorded counts as done.
	if done, err := h.API.EventQuery(event); !done || err != nil {
		t.Errorf("an unrecorded event: %v, %v", done, err)
	}
	h.Check(h.API.EventSynchronize(event))

	// The second stream's addition comes after the first's.
	const n = 4096
	in := testkernels.RandomWords(t, n)
	a := h.Upload(in)
	b, c := h.Alloc(4*n), h.Alloc(4*n)
	add := h.Function("add")
	shape := driver.Shape{Grid: driver.Dim{X: n / 128}, Block: driver.Dim{X: 128}}
	p := new(driver.Params)
	h.Check(h.API.EventRecord(start, h.Stream))
	h.Check(h.API.Launch(add, shape, p.Ptr(a).Ptr(a).Ptr(b).Int32(n), h.Stream))
	h.Check(h.API.EventRecord(event, h.Stream))
	h.Check(h.API.StreamWaitEvent(second, event))
	h.Check(h.API.Launch(add, shape, p.Reset().Ptr(b).Ptr(a).Ptr(c).Int32(n), second))
	h.Check(h.API.EventRecord(untimed, second))
	h.Check(h.API.EventSynchronize(untimed))
	for _, e := range []driver.Event{event, untimed} {
		if done, err := h.API.EventQuery(e); !done || err != nil {
			t.Errorf("after it was waited for: %v, %v", done, err)
		}
	}
	for _, s := range []driver.Stream{h.Stream, second} {
		h.Check(h.API.StreamSynchronize(s))
		if done, err := h.API.StreamQuery(s); !done || err != nil {
			t.Errorf("after it was waited for: %v, %v", done, err)
		}
	}
	for i, v := range h.Download(c, n) {
		if v != 3*in[i] {
			t.Fatalf("element %d: %#x, want %#x", i, v, 3*in[i])
		}
	}
	elapsed, err := h.API.EventElapsed(start, event)
	h.Check(err)
	if elapsed <= 0 || elapsed > time.Minute {
		t.Errorf("%v between the events", elapsed)
	}
	if _, err := h.API.EventElapsed(start, untimed); !errors.Is(err, driver.ErrInvalidHandle) {
		t.Errorf("time to an event without timing: %v", err)
	}
	for _, e := range []driver.Event{event, start, untimed} {
		h.Check(h.API.EventDestroy(e))
	}
	h.Check(h.API.StreamDestroy(second))
}

// trapChild tells the test binary that it is the process in which a card's context is spoilt.
const trapChild = "CTRUTLS_TRAP_CHILD"

// A kernel that traps spoils its context: every call says so from then on. Resetting the primary context brings it back on
// the simulator. On a card it may not (an H200 with driver 580 refuses the context for as long as the process lives): that is
// logged, and happens in a process of its own.
func TestTrapAndReset(t *testing.T) {
	if _, sim := testkernels.Open(t); sim == nil && os.Getenv(trapChild) == "" {
		child := exec.Command(os.Args[0], "-test.run=^TestTrapAndReset$", "-test.v")
		child.Env = append(os.Environ(), trapChild+"=1")
		out, err := child.CombinedOutput()
		t.Logf("%s", out)
		if err != nil || !bytes.Contains(out, []byte("after a trap:")) {
			t.Error(err)
		}
		return
	}
	h := testkernels.Spoilable(t)
	h.Check(h.Launch("broken_trap", driver.Shape{Block: driver.Dim{X: 64}}, new(driver.Params).Ptr(h.Alloc(256))))
	err := h.API.StreamSynchronize(h.Stream)
	var e *driver.Error
	if !errors.As(err, &e) || !e.Result.Sticky() {
		t.Fatalf("after a trap: %v", err)
	}
	t.Logf("after a trap: %v", err)
	if e.Result != driver.ErrLaunchFailed {
		t.Errorf("result %d", e.Result)
	}
	_, allocErr := h.API.MemAlloc(16)
	_, _, infoErr := h.API.MemInfo()
	_, queryErr := h.API.StreamQuery(h.Stream)
	for name, err := range map[string]error{
		"MemAlloc":       allocErr,
		"MemInfo":        infoErr,
		"StreamQuery":    queryErr,
		"CtxSynchronize": h.API.CtxSynchronize(),
		"MemsetAsync":    h.API.MemsetAsync(0, 0, 1, h.Stream),
		"StreamDestroy":  h.API.StreamDestroy(h.Stream),
	} {
		if !errors.Is(err, e.Result) {
			t.Errorf("%s: %v", name, err)
		}
	}
	h.Check(h.API.PrimaryCtxReset(0))
	active, err := h.API.PrimaryCtxActive(0)
	t.Logf("after a reset the context is active: %v (%v)", active, err)
	ctx, err := h.API.PrimaryCtxRetain(0)
	if h.Sim == nil {
		t.Logf("the context after a reset: %v", err)
		return
	}
	h.Check(err)
	h.Check(h.API.CtxSetCurrent(ctx))
	h.Alloc(16)
	h.Check(h.API.CtxSetCurrent(0))
	h.Check(h.API.PrimaryCtxRelease(0))
}
