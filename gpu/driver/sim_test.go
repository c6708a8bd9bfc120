//go:build sim

package driver_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
	"github.com/ctrutls/ctrutls/kernels/sim/testkernels"
)

// Every call reports an injected failure under its own name, and nothing else changes.
func TestEveryCallFails(t *testing.T) {
	calls := map[string]func(h *testkernels.Harness) error{
		"cuDeviceGetCount":         func(h *testkernels.Harness) error { _, err := h.API.DeviceCount(); return err },
		"cuDeviceGet":              func(h *testkernels.Harness) error { _, err := h.API.DeviceInfo(0); return err },
		"cuDeviceGetName":          func(h *testkernels.Harness) error { _, err := h.API.DeviceInfo(0); return err },
		"cuDeviceGetPCIBusId":      func(h *testkernels.Harness) error { _, err := h.API.DeviceInfo(0); return err },
		"cuDeviceTotalMem":         func(h *testkernels.Harness) error { _, err := h.API.DeviceInfo(0); return err },
		"cuDeviceGetAttribute":     func(h *testkernels.Harness) error { _, err := h.API.DeviceInfo(0); return err },
		"cuDevicePrimaryCtxRetain": func(h *testkernels.Harness) error { _, err := h.API.PrimaryCtxRetain(0); return err },
		"cuDevicePrimaryCtxRelease": func(h *testkernels.Harness) error {
			return h.API.PrimaryCtxRelease(0)
		},
		"cuDevicePrimaryCtxGetState":                  func(h *testkernels.Harness) error { _, err := h.API.PrimaryCtxActive(0); return err },
		"cuDevicePrimaryCtxReset":                     func(h *testkernels.Harness) error { return h.API.PrimaryCtxReset(0) },
		"cuDevicePrimaryCtxSetFlags":                  func(h *testkernels.Harness) error { return h.API.PrimaryCtxSetFlags(0, driver.ScheduleBlocking) },
		"cuCtxSetCurrent":                             func(h *testkernels.Harness) error { return h.API.CtxSetCurrent(0) },
		"cuCtxSynchronize":                            func(h *testkernels.Harness) error { return h.API.CtxSynchronize() },
		"cuMemGetInfo":                                func(h *testkernels.Harness) error { _, _, err := h.API.MemInfo(); return err },
		"cuCtxGetDevice":                              func(h *testkernels.Harness) error { _, err := h.API.ModuleLoad(testkernels.PTX); return err },
		"cuModuleLoadData":                            func(h *testkernels.Harness) error { _, err := h.API.ModuleLoad(testkernels.PTX); return err },
		"cuModuleUnload":                              func(h *testkernels.Harness) error { return h.API.ModuleUnload(h.Module) },
		"cuModuleGetFunction":                         func(h *testkernels.Harness) error { _, err := h.API.ModuleFunction(h.Module, "add"); return err },
		"cuFuncGetAttribute":                          func(h *testkernels.Harness) error { _, err := h.API.FunctionInfo(1); return err },
		"cuFuncSetAttribute":                          func(h *testkernels.Harness) error { return h.API.SetMaxDynamicShared(1, 1) },
		"cuOccupancyMaxActiveBlocksPerMultiprocessor": func(h *testkernels.Harness) error { _, err := h.API.Occupancy(1, 1, 1); return err },
		"cuMemAlloc":                                  func(h *testkernels.Harness) error { _, err := h.API.MemAlloc(1); return err },
		"cuMemFree":                                   func(h *testkernels.Harness) error { return h.API.MemFree(1) },
		"cuMemsetD8Async":                             func(h *testkernels.Harness) error { return h.API.MemsetAsync(1, 1, 1, h.Stream) },
		"cuMemHostAlloc":                              func(h *testkernels.Harness) error { _, err := h.API.HostAlloc(1); return err },
		"cuMemFreeHost":                               func(h *testkernels.Harness) error { return h.API.HostFree(make([]byte, 1)) },
		"cuMemHostGetDevicePointer":                   func(h *testkernels.Harness) error { _, err := h.API.HostDevicePtr(make([]byte, 1)); return err },
		"cuMemcpyHtoDAsync":                           func(h *testkernels.Harness) error { return h.API.CopyToDevice(1, make([]byte, 1), h.Stream) },
		"cuMemcpyDtoHAsync":                           func(h *testkernels.Harness) error { return h.API.CopyToHost(make([]byte, 1), 1, h.Stream) },
		"cuStreamCreate":                              func(h *testkernels.Harness) error { _, err := h.API.StreamCreate(0); return err },
		"cuStreamDestroy":                             func(h *testkernels.Harness) error { return h.API.StreamDestroy(h.Stream) },
		"cuStreamQuery":                               func(h *testkernels.Harness) error { _, err := h.API.StreamQuery(h.Stream); return err },
		"cuStreamSynchronize":                         func(h *testkernels.Harness) error { return h.API.StreamSynchronize(h.Stream) },
		"cuStreamWaitEvent":                           func(h *testkernels.Harness) error { return h.API.StreamWaitEvent(h.Stream, 1) },
		"cuEventCreate":                               func(h *testkernels.Harness) error { _, err := h.API.EventCreate(0); return err },
		"cuEventDestroy":                              func(h *testkernels.Harness) error { return h.API.EventDestroy(1) },
		"cuEventRecord":                               func(h *testkernels.Harness) error { return h.API.EventRecord(1, h.Stream) },
		"cuEventQuery":                                func(h *testkernels.Harness) error { _, err := h.API.EventQuery(1); return err },
		"cuEventSynchronize":                          func(h *testkernels.Harness) error { return h.API.EventSynchronize(1) },
		"cuEventElapsedTime":                          func(h *testkernels.Harness) error { _, err := h.API.EventElapsed(1, 1); return err },
		"cuLaunchKernel":                              func(h *testkernels.Harness) error { return h.API.Launch(1, driver.Shape{}, nil, h.Stream) },
		"cuInit": func(*testkernels.Harness) error {
			path, err := simctl.TestLibrary()
			if err != nil {
				return err
			}
			_, err = driver.Open(path)
			return err
		},
	}
	h := testkernels.New(t)
	for _, name := range h.Sim.Calls() {
		call, ok := calls[name]
		if !ok {
			// What this package does not use.
			switch name {
			case "cuDeviceGetUuid", "cuCtxGetCurrent", "cuCtxGetStreamPriorityRange", "cuStreamGetPriority":
				continue
			}
			t.Errorf("%s is not called by this test", name)
			continue
		}
		h.Sim.FailCall(0, name, 0, 1, int(driver.ErrECCUncorrectable), false)
		err := call(h)
		var e *driver.Error
		// Calls whose symbol has a longer name report that one.
		if !errors.Is(err, driver.ErrECCUncorrectable) || !errors.As(err, &e) || !strings.HasPrefix(e.Call, name) || e.Name != "CUDA_ERROR_ECC_UNCORRECTABLE" {
			t.Errorf("%s: %v", name, err)
		}
		h.Sim.ClearFaults(0)
		h.Check(h.API.CtxSynchronize())
	}
}

// The n-th call fails, and count of them do.
func TestFailCallCounts(t *testing.T) {
	h := testkernels.New(t)
	h.Sim.FailCall(0, "cuMemAlloc", 2, 3, int(driver.ErrOutOfMemory), false)
	var failed []int
	for i := range 8 {
		p, err := h.API.MemAlloc(64)
		if err != nil {
			if !errors.Is(err, driver.ErrOutOfMemory) {
				t.Errorf("call %d: %v", i, err)
			}
			failed = append(failed, i)
			continue
		}
		h.Check(h.API.MemFree(p))
	}
	if len(failed) != 3 || failed[0] != 2 || failed[2] != 4 {
		t.Errorf("calls %v failed, want 2 to 4", failed)
	}
	h.Sim.FailCall(0, "cuMemAlloc", 0, simctl.Forever, int(driver.ErrOutOfMemory), false)
	for range 5 {
		if _, err := h.API.MemAlloc(64); err == nil {
			t.Error("an allocation went through")
		}
	}
	h.Sim.ClearFaults(0)
	h.Alloc(64)
}

func TestOldDriverAndOldDevice(t *testing.T) {
	h := testkernels.New(t)
	path, err := simctl.TestLibrary()
	if err != nil {
		t.Fatal(err)
	}
	h.Sim.SetDriverVersion(10020)
	want := "driver: the NVIDIA driver is too old: it has CUDA 10.2, CUDA 11.0 or later is needed"
	if _, err := driver.Open(path); !errors.Is(err, driver.ErrTooOld) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	h.Sim.SetDriverVersion(12040)
	h.Sim.SetCompute(0, 7, 5)
	want = "driver: the device is too old: it has compute capability 7.5, 8.0 or later is needed"
	if _, err := h.API.ModuleLoad(testkernels.PTX); !errors.Is(err, driver.ErrTooOld) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestNoDevice(t *testing.T) {
	_, sim := testkernels.Open(t)
	sim.Reset()
	sim.SetDeviceCount(0)
	path, err := simctl.TestLibrary()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := driver.Open(path); !errors.Is(err, driver.ErrNoDevice) {
		t.Errorf("got %v", err)
	}
	sim.Reset()
}

// Each thread has its own context, and several devices work side by side.
func TestThreadsAndDevices(t *testing.T) {
	api, sim := testkernels.Open(t)
	sim.SetDeviceCount(3)
	errs := make(chan error)
	for device := range 3 {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			errs <- func() error {
				ctx, err := api.PrimaryCtxRetain(device)
				if err != nil {
					return err
				}
				if err := api.CtxSetCurrent(ctx); err != nil {
					return err
				}
				var out []byte
				for i := range 50 {
					p, err := api.MemAlloc(1000 + device)
					if err != nil {
						return err
					}
					s, err := api.StreamCreate(0)
					if err != nil {
						return err
					}
					out = make([]byte, 1000+device)
					err = errors.Join(api.MemsetAsync(p, byte(16*device+i), len(out), s), api.CopyToHost(out, p, s), api.StreamSynchronize(s),
						api.StreamDestroy(s), api.MemFree(p))
					if err != nil {
						return err
					}
					for _, v := range out {
						if v != byte(16*device+i) {
							return errors.New("another thread's bytes")
						}
					}
				}
				return errors.Join(api.CtxSetCurrent(0), api.PrimaryCtxRelease(device))
			}()
		}()
	}
	for range 3 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for device := range 3 {
		if st := sim.Stats(device); st.Leaks() || st.CopiesToHost != 50 {
			t.Errorf("device %d: %+v", device, st)
		}
	}
}
