//go:build linux

package bench

import (
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
)

// An Idle is the driver of one device that does nothing: whoever waits for it waits Latency, asleep in the kernel as in CUDA's blocking wait, and
// finds in memory what was there before. It is for measuring what it costs the CPU to have a device do something.
type Idle struct {
	driver.API // nil: what an engine does not call
	Latency    time.Duration

	handles atomic.Uintptr
}

func (d *Idle) handle() uintptr { return d.handles.Add(1 << 32) }

// The calls of driver.API that an engine makes.

func (*Idle) Version() int { return 13000 }

func (*Idle) DeviceCount() (int, error) { return 1, nil }

func (*Idle) DeviceInfo(int) (driver.DeviceInfo, error) {
	return driver.DeviceInfo{Name: "idle", PCIBusID: "0000:00:00.0", Memory: 1 << 40, Major: 9, Multiprocessors: 132, AsyncEngines: 3, MaxSharedPerBlock: 227 << 10}, nil
}

func (d *Idle) PrimaryCtxRetain(int) (driver.Context, error) { return driver.Context(d.handle()), nil }

func (*Idle) PrimaryCtxRelease(int) error { return nil }

func (*Idle) PrimaryCtxActive(int) (bool, error) { return false, nil }

func (*Idle) CtxSetCurrent(driver.Context) error { return nil }

func (*Idle) MemInfo() (free, total uint64, err error) { return 1 << 40, 1 << 40, nil }

func (d *Idle) ModuleLoad([]byte) (driver.Module, error) { return driver.Module(d.handle()), nil }

func (*Idle) ModuleUnload(driver.Module) error { return nil }

func (d *Idle) ModuleFunction(driver.Module, string) (driver.Function, error) {
	return driver.Function(d.handle()), nil
}

func (*Idle) FunctionInfo(driver.Function) (driver.FunctionInfo, error) {
	return driver.FunctionInfo{}, nil
}

func (*Idle) SetMaxDynamicShared(driver.Function, int) error { return nil }

func (d *Idle) MemAlloc(int) (driver.DevicePtr, error) { return driver.DevicePtr(d.handle()), nil }

func (*Idle) MemFree(driver.DevicePtr) error { return nil }

func (*Idle) MemsetAsync(driver.DevicePtr, byte, int, driver.Stream) error { return nil }

func (*Idle) HostAlloc(n int) ([]byte, error) { return make([]byte, n), nil }

func (*Idle) HostFree([]byte) error { return nil }

func (d *Idle) HostDevicePtr([]byte) (driver.DevicePtr, error) {
	return driver.DevicePtr(d.handle()), nil
}

func (*Idle) CopyToDevice(driver.DevicePtr, []byte, driver.Stream) error { return nil }

func (*Idle) CopyToHost([]byte, driver.DevicePtr, driver.Stream) error { return nil }

func (d *Idle) StreamCreate(int) (driver.Stream, error) { return driver.Stream(d.handle()), nil }

func (*Idle) StreamDestroy(driver.Stream) error { return nil }

func (*Idle) StreamSynchronize(driver.Stream) error { return nil }

func (*Idle) StreamWaitEvent(driver.Stream, driver.Event) error { return nil }

func (d *Idle) EventCreate(driver.EventFlags) (driver.Event, error) {
	return driver.Event(d.handle()), nil
}

func (*Idle) EventDestroy(driver.Event) error { return nil }

func (*Idle) EventRecord(driver.Event, driver.Stream) error { return nil }

func (d *Idle) EventSynchronize(driver.Event) error {
	left := syscall.NsecToTimespec(int64(d.Latency))
	for syscall.Nanosleep(&left, &left) == syscall.EINTR { // the runtime's signals
	}
	return nil
}

func (*Idle) Launch(driver.Function, driver.Shape, *driver.Params, driver.Stream) error { return nil }
