//go:build sim

package testkernels_test

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
	. "github.com/ctrutls/ctrutls/kernels/sim/testkernels"
)

// A brokenKernel is one that the simulator must catch, in every order of threads.
type brokenKernel struct {
	kernel string
	want   driver.Result
	reason string // a part of the reported fault
	extra  []int32
	shape  driver.Shape
	checks simctl.Checks
}

var usual = simctl.Checks{Races: true, UninitialisedGlobal: true}

var brokenKernels = []brokenKernel{
	{kernel: "broken_trap", want: driver.ErrLaunchFailed, reason: "thread (5,0,0): __trap()"},
	{kernel: "broken_missing_syncthreads", want: driver.ErrLaunchFailed, reason: "race:"},
	{kernel: "broken_missing_second_barrier", want: driver.ErrLaunchFailed, reason: "race:"},
	{kernel: "broken_missing_syncwarp", want: driver.ErrLaunchFailed, reason: "race:"},
	{kernel: "broken_too_small_barrier", want: driver.ErrLaunchFailed, reason: "race:"},
	{kernel: "broken_divergent_barrier", want: driver.ErrLaunchFailed, reason: "divergent barrier"},
	{kernel: "broken_barrier_after_return", want: driver.ErrLaunchFailed, reason: "return"},
	{kernel: "broken_named_barrier_count", want: driver.ErrLaunchFailed, reason: "named barrier 1"},
	{kernel: "broken_deadlock", want: driver.ErrLaunchFailed, reason: "deadlock"},
	{kernel: "broken_shuffle_exited", want: driver.ErrLaunchFailed, reason: "return"},
	{kernel: "broken_shuffle_diverged", want: driver.ErrLaunchFailed, reason: "deadlock: the warp operation"},
	{kernel: "broken_shuffle_unnamed", want: driver.ErrLaunchFailed, reason: "reads lane 12, which its mask"},
	{kernel: "broken_shuffle_not_named", want: driver.ErrLaunchFailed, reason: "does not name the calling lane 31"},
	{kernel: "broken_block_read", shape: driver.Shape{Grid: driver.Dim{X: 2}}, want: driver.ErrLaunchFailed, reason: "race between blocks: "},
	{kernel: "broken_block_write", shape: driver.Shape{Grid: driver.Dim{X: 2}}, want: driver.ErrLaunchFailed, reason: "race between blocks: write of 1 bytes at offset 63 of a device allocation"},
	{kernel: "broken_global_read", want: driver.ErrIllegalAddress, reason: "read of 4 bytes"},
	{kernel: "broken_global_write", want: driver.ErrIllegalAddress, reason: "0 bytes past the end of a device allocation of 1024 bytes"},
	{kernel: "broken_global_before", want: driver.ErrIllegalAddress, reason: "1 bytes before a device allocation of 1024 bytes"},
	{kernel: "broken_global_vector", want: driver.ErrIllegalAddress, reason: "bytes past the end of a device allocation of 1024 bytes"},
	{kernel: "broken_misaligned", want: driver.ErrMisalignedAddress, reason: "misaligned address"},
	{kernel: "broken_static_shared", extra: []int32{1}, want: driver.ErrIllegalAddress, reason: "0 bytes past the end of shared variable s (256 bytes)"},
	{kernel: "broken_static_shared", extra: []int32{-1}, want: driver.ErrIllegalAddress, reason: "in shared memory"},
	{kernel: "broken_static_shared_row", extra: []int32{1}, want: driver.ErrIllegalAddress, reason: "index 64 out of an array's bounds"},
	{kernel: "broken_dynamic_shared", extra: []int32{1}, shape: driver.Shape{Shared: 256}, want: driver.ErrIllegalAddress, reason: "0 bytes past the end of dynamic shared memory (256 bytes)"},
	{kernel: "broken_dynamic_shared", extra: []int32{-1}, shape: driver.Shape{Shared: 256}, want: driver.ErrIllegalAddress, reason: "4 bytes before the start of dynamic shared memory"},
	{kernel: "broken_local_array", extra: []int32{1}, want: driver.ErrIllegalAddress, reason: "index 8 out of an array's bounds"},
	{kernel: "broken_constant_write", want: driver.ErrIllegalAddress, reason: "write of 4 bytes in constant memory"},
	{kernel: "broken_local_pointer", want: driver.ErrIllegalAddress, reason: "the local memory of another thread"},
	{kernel: "broken_uninitialised_shared", want: driver.ErrIllegalAddress, reason: "uninitialised read of 4 bytes at offset 252 of shared variable s", checks: simctl.Checks{UninitialisedShared: true}},
	{kernel: "broken_copy_not_waited", want: driver.ErrLaunchFailed, reason: "while an asynchronous copy into it is under way"},
	{kernel: "broken_copy_no_barrier", want: driver.ErrLaunchFailed, reason: ""},
	{kernel: "broken_signed_overflow", want: driver.ErrLaunchFailed, reason: "signed overflow in an addition at testkernels.cu:"},
	{kernel: "broken_shift", want: driver.ErrLaunchFailed, reason: "shift by the type's width"},
	{kernel: "broken_endless", want: driver.ErrLaunchTimeout, reason: "memory accesses"},
	{kernel: "broken_waits_for_ever", want: driver.ErrLaunchTimeout, reason: "no thread of the block makes progress"},
}

// runBroken launches a kernel on (in, out, extra...) and returns how that ended, and why.
func runBroken(t *testing.T, c brokenKernel, seed uint64) (reason string, err error) {
	h := New(t)
	h.Sim.SetSeed(seed)
	h.Sim.SetStepLimit(1 << 20)
	if c.checks == (simctl.Checks{}) {
		c.checks = usual
	}
	h.Sim.SetChecks(c.checks)
	const words = 256
	in := make([]uint32, words)
	for i := range in {
		in[i] = uint32(i)*2654435761&^7 | 7 // every index taken from it modulo 8 is 7
	}
	zero := make([]uint32, words)
	source, target := h.Upload(in), h.Upload(zero)
	p := new(driver.Params)
	if c.kernel != "broken_trap" {
		p.Ptr(source)
	}
	p.Ptr(target)
	for _, v := range c.extra {
		p.Int32(v)
	}
	c.shape.Block = driver.Dim{X: 64}
	h.Check(h.Launch(c.kernel, c.shape, p))
	err = h.API.StreamSynchronize(h.Stream)
	return h.Sim.LastFault(), err
}

func TestBrokenKernels(t *testing.T) {
	for _, c := range brokenKernels {
		name := strings.TrimPrefix(c.kernel, "broken_")
		if len(c.extra) > 0 && c.extra[0] < 0 {
			name += "_before"
		}
		for seed := range uint64(4) {
			t.Run(name, func(t *testing.T) {
				reason, err := runBroken(t, c, seed)
				if !errors.Is(err, c.want) || !strings.Contains(reason, c.reason) || !strings.HasPrefix(reason, c.kernel+": block (") {
					t.Errorf("seed %d: got %v (%s), want %d (... %s)", seed, err, reason, c.want, c.reason)
				} else if seed == 0 {
					t.Log(reason)
				}
			})
		}
	}
}

// The race detector finds a missing barrier in every order. Without it a wrong result shows only in some orders.
func TestMissingBarrierByOrder(t *testing.T) {
	for _, kernel := range []string{"broken_missing_syncthreads", "broken_missing_second_barrier", "broken_too_small_barrier"} {
		t.Run(kernel, func(t *testing.T) {
			h := New(t)
			h.Sim.SetChecks(simctl.Checks{})
			in := RandomWords(t, 64)
			results := make(map[[64]uint32]bool)
			for seed := range uint64(8) {
				h.Sim.SetSeed(seed)
				results[[64]uint32(runOps(t, h, kernel, 64, in, 64))] = true
			}
			if len(results) == 1 {
				t.Error("eight orders of threads gave one result")
			}
		})
	}
}

// Pointers that are no device memory, each passed as the kernel's input.
func TestWrongPointers(t *testing.T) {
	hostSlice := make([]uint32, 64)
	cases := []struct {
		name   string
		input  func(h *Harness) driver.DevicePtr
		reason string
	}{
		{"host memory", func(*Harness) driver.DevicePtr { return driver.DevicePtr(uintptr(unsafe.Pointer(&hostSlice[0]))) }, "an address that is no device memory"},
		{"pinned memory by its host address", func(h *Harness) driver.DevicePtr {
			b, err := h.API.HostAlloc(256)
			h.Check(err)
			return driver.DevicePtr(uintptr(unsafe.Pointer(&b[0])))
		}, "an address that is no device memory"},
		{"null", func(*Harness) driver.DevicePtr { return 0 }, "a null pointer"},
		{"freed", func(h *Harness) driver.DevicePtr {
			p := h.Upload(hostSlice)
			h.Check(h.API.StreamSynchronize(h.Stream))
			h.Check(h.API.MemFree(p))
			return p
		}, "a freed device allocation of 256 bytes"},
		{"never allocated", func(h *Harness) driver.DevicePtr { return h.Upload(hostSlice) + 1<<30 }, "device memory that is not allocated"},
		{"uninitialised", func(h *Harness) driver.DevicePtr { return h.Alloc(256) }, "uninitialised read of 4 bytes"},
		{"half initialised", func(h *Harness) driver.DevicePtr {
			p := h.Alloc(256)
			h.Check(h.API.MemsetAsync(p, 0, 131, h.Stream))
			return p
		}, "uninitialised read of 4 bytes"},
		{"another device", func(h *Harness) driver.DevicePtr {
			ctx, err := h.API.PrimaryCtxRetain(1)
			h.Check(err)
			t.Cleanup(func() { h.Check(h.API.PrimaryCtxRelease(1)) })
			mine, err := h.API.PrimaryCtxRetain(0)
			h.Check(err)
			h.Check(h.API.CtxSetCurrent(ctx))
			p := h.Alloc(256)
			h.Check(h.API.MemsetAsync(p, 0, 256, 0))
			h.Check(h.API.CtxSynchronize())
			h.Check(h.API.CtxSetCurrent(mine))
			h.Check(h.API.PrimaryCtxRelease(0))
			return p
		}, "an address that is no device memory"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := New(t)
			h.Sim.SetDeviceCount(2)
			p := new(driver.Params).Ptr(c.input(h)).Ptr(h.Alloc(256))
			h.Check(h.Launch("broken_pointer", driver.Shape{Block: driver.Dim{X: 64}}, p))
			err := h.API.StreamSynchronize(h.Stream)
			if !errors.Is(err, driver.ErrIllegalAddress) || !strings.Contains(h.Sim.LastFault(), c.reason) {
				t.Errorf("got %v (%s), want %s", err, h.Sim.LastFault(), c.reason)
			}
		})
	}
}

// A device address that did not come as a pointer parameter is no address of the simulator's memory.
func TestHiddenPointer(t *testing.T) {
	h := New(t)
	p := new(driver.Params).Ptr(h.Upload(make([]uint32, 64))).Ptr(h.Alloc(256))
	h.Check(h.Launch("broken_hidden_pointer", driver.Shape{Block: driver.Dim{X: 64}}, p))
	err := h.API.StreamSynchronize(h.Stream)
	if !errors.Is(err, driver.ErrIllegalAddress) || !strings.Contains(h.Sim.LastFault(), "did not come as a kernel parameter") {
		t.Errorf("got %v (%s)", err, h.Sim.LastFault())
	}
}

// Pinned memory is reached through its device address.
func TestMappedMemory(t *testing.T) {
	h := New(t)
	b, err := h.API.HostAlloc(256)
	h.Check(err)
	for i := range b {
		b[i] = byte(i)
	}
	p, err := h.API.HostDevicePtr(b)
	h.Check(err)
	out := h.Alloc(256)
	h.Check(h.Launch("broken_pointer", driver.Shape{Block: driver.Dim{X: 64}}, new(driver.Params).Ptr(p).Ptr(out)))
	compare(t, 64, h.Download(out, 64), Words(b))
	h.Check(h.API.HostFree(b))
}

// The same seed gives the same order, whatever else the machine does: a fault is found again in the same thread.
func TestOrderIsReproducible(t *testing.T) {
	c := brokenKernel{kernel: "broken_missing_syncthreads"}
	run := func(seed uint64) (reason string) {
		t.Run("", func(t *testing.T) { reason, _ = runBroken(t, c, seed) })
		return reason
	}
	different := make(map[string]bool)
	for seed := uint64(1); seed < 6; seed++ {
		first := run(seed)
		for range 3 {
			if again := run(seed); again != first {
				t.Errorf("seed %d: %q, then %q", seed, first, again)
			}
		}
		different[first] = true
	}
	if len(different) == 1 {
		t.Error("five seeds gave one order")
	}
}
