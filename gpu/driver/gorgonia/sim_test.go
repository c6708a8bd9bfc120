//go:build gorgonia && sim && linux && (amd64 || arm64)

package gorgonia

import (
	"errors"
	"runtime"
	"testing"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

// openSimulator opens the simulator that the tests of this process share.
func openSimulator(t *testing.T) (driver.API, *simctl.Sim) {
	t.Helper()
	sim, path, err := simctl.Fresh(simctl.TestLibrary())
	if err != nil {
		t.Fatal(err)
	}
	a, err := driver.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return a, sim
}

// A program may call cu once a library is open, and of what the library does not have it says so.
func TestCuBeside(t *testing.T) {
	_, sim := openSimulator(t)
	sim.SetDeviceCount(3)
	if n, err := cu.NumDevices(); n != 3 || err != nil {
		t.Errorf("cu finds %d devices, %v", n, err)
	}
	if _, err := cu.MakeGraph(); err != cu.NotSupported {
		t.Errorf("a call that the simulator lacks: %v", err)
	}
}

func TestOneLibrary(t *testing.T) {
	openSimulator(t)
	other, err := simctl.Library()
	if err != nil {
		t.Fatal(err)
	}
	want := "driver: " + other + " cannot be opened beside another driver library: with gorgonia.org/cu a process has one"
	if _, err := driver.Open(other); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if _, err := driver.Open("/no/such/library.so"); !errors.Is(err, driver.ErrNoDriver) {
		t.Errorf("got %v", err)
	}
	if n, err := cu.NumDevices(); n != 1 || err != nil {
		t.Errorf("afterwards cu finds %d devices, %v", n, err)
	}
}

// Handles go through numbers unharmed.
func TestHandles(t *testing.T) {
	a, _ := openSimulator(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, err := a.PrimaryCtxRetain(0)
	check(err)
	check(a.CtxSetCurrent(ctx))
	current, err := cu.CurrentContext()
	check(err)
	if current != contextOf(ctx) || contextNumber(current) != ctx || ctx == 0 {
		t.Errorf("context %#x, current %v", ctx, current)
	}
	s, err := a.StreamCreate(0)
	check(err)
	if got := uintptr(unsafe.Pointer(streamOf(s).C())); got != uintptr(s) || s == 0 {
		t.Errorf("stream %#x is %#x to cu", s, got)
	}
	check(a.StreamDestroy(s))
	check(a.CtxSetCurrent(0))
	check(a.PrimaryCtxRelease(0))
}
