//go:build gorgonia && cgo && linux && (amd64 || arm64)

package gorgonia

import (
	"reflect"
	"runtime"
	"time"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/ctrutls/ctrutls/gpu/driver"
)

func init() { driver.Use("gorgonia.org/cu", open) }

func open(path string) (driver.API, error) {
	version, err := load(path)
	if err != nil {
		return nil, err
	}
	return api{version}, nil
}

// api is driver.API through cu. Its calls use cu's functions, not the methods of cu's Ctx, which pass every call to another thread.
type api struct{ version int }

// wrap turns an error of cu's, which is a number of a type it keeps to itself, into one of package driver's.
func wrap(call string, err error) error {
	if err == nil {
		return nil
	}
	return failure(call, err)
}

func failure(call string, err error) *driver.Error {
	return failed(call, driver.Result(reflect.ValueOf(err).Int()))
}

func (a api) Version() int { return a.version }

func (api) DeviceCount() (int, error) {
	n, err := cu.NumDevices()
	return n, wrap("cuDeviceGetCount", err)
}

func (api) DeviceInfo(number int) (info driver.DeviceInfo, err error) {
	device, err := cu.GetDevice(number)
	if err != nil {
		return driver.DeviceInfo{}, failure("cuDeviceGet", err)
	}
	if info.Name, err = device.Name(); err != nil {
		return driver.DeviceInfo{}, failure("cuDeviceGetName", err)
	}
	if info.PCIBusID, err = pciBusID(int(device)); err != nil {
		return driver.DeviceInfo{}, err
	}
	memory, err := device.TotalMem()
	if err != nil {
		return driver.DeviceInfo{}, failure("cuDeviceTotalMem", err)
	}
	info.Memory = uint64(memory)
	for attribute, field := range map[cu.DeviceAttribute]*int{
		cu.MultiprocessorCount:    &info.Multiprocessors,
		cu.AsyncEngineCount:       &info.AsyncEngines,
		cu.ComputeCapabilityMajor: &info.Major,
		cu.ComputeCapabilityMinor: &info.Minor,
		sharedMemoryOptIn:         &info.MaxSharedPerBlock,
	} {
		if *field, err = device.Attribute(attribute); err != nil {
			return driver.DeviceInfo{}, failure("cuDeviceGetAttribute", err)
		}
	}
	return info, nil
}

func (api) PrimaryCtxRetain(device int) (driver.Context, error) {
	c, err := cu.Device(device).RetainPrimaryCtx()
	return contextNumber(c), wrap("cuDevicePrimaryCtxRetain", err)
}

func (api) PrimaryCtxRelease(device int) error {
	return wrap("cuDevicePrimaryCtxRelease", cu.Device(device).ReleasePrimaryCtx())
}

func (api) PrimaryCtxActive(device int) (bool, error) {
	_, active, err := cu.Device(device).PrimaryCtxState()
	return active != 0, wrap("cuDevicePrimaryCtxGetState", err)
}

func (api) PrimaryCtxReset(device int) error {
	return wrap("cuDevicePrimaryCtxReset", cu.Device(device).ResetPrimaryCtx())
}

func (api) PrimaryCtxSetFlags(device int, flags driver.ContextFlags) error {
	return wrap("cuDevicePrimaryCtxSetFlags", cu.Device(device).SetPrimaryCtxFlags(cu.ContextFlags(flags)))
}

func (api) CtxSetCurrent(ctx driver.Context) error {
	return wrap("cuCtxSetCurrent", cu.SetCurrentContext(contextOf(ctx)))
}

func (api) CtxSynchronize() error { return wrap("cuCtxSynchronize", cu.Synchronize()) }

func (api) MemInfo() (free, total uint64, err error) {
	f, t, err := cu.MemInfo()
	return uint64(f), uint64(t), wrap("cuMemGetInfo", err)
}

func (a api) ModuleLoad(ptx []byte) (driver.Module, error) {
	device, err := cu.CurrentDevice()
	if err != nil {
		return 0, failure("cuCtxGetDevice", err)
	}
	major, err := device.Attribute(cu.ComputeCapabilityMajor)
	if err != nil {
		return 0, failure("cuDeviceGetAttribute", err)
	}
	minor, err := device.Attribute(cu.ComputeCapabilityMinor)
	if err != nil {
		return 0, failure("cuDeviceGetAttribute", err)
	}
	if err := driver.CheckPTX(ptx, a.version, major, minor); err != nil {
		return 0, err
	}
	log := &cu.JITErrorLogBuffer{Buffer: make([]byte, 8<<10)}
	m, err := cu.LoadDataEx(string(ptx), log)
	runtime.KeepAlive(log) // cu passes its address as a number
	if err != nil {
		e := failure("cuModuleLoadDataEx", err)
		e.Detail = text(log.Buffer)
		return 0, e
	}
	return moduleNumber(m), nil
}

// text returns a C string of at most len(b) bytes.
func text(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

func (api) ModuleUnload(m driver.Module) error {
	return wrap("cuModuleUnload", moduleOf(m).Unload())
}

func (api) ModuleFunction(m driver.Module, name string) (driver.Function, error) {
	f, err := moduleOf(m).Function(name)
	if err != nil {
		e := failure("cuModuleGetFunction", err)
		e.Detail = name
		return 0, e
	}
	return functionNumber(f), nil
}

func (api) FunctionInfo(f driver.Function) (info driver.FunctionInfo, err error) {
	for attribute, field := range map[cu.FunctionAttribute]*int{
		cu.FnMaxThreadsPerBlock: &info.MaxThreads,
		cu.SharedSizeBytes:      &info.SharedBytes,
		cu.LocalSizeBytes:       &info.LocalBytes,
		cu.NumRegs:              &info.Registers,
		cu.PtxVersion:           &info.PTXVersion,
		cu.BinaryVersion:        &info.BinaryVersion,
		maxDynamicShared:        &info.MaxDynamicShared,
	} {
		if *field, err = functionOf(f).Attribute(attribute); err != nil {
			return driver.FunctionInfo{}, failure("cuFuncGetAttribute", err)
		}
	}
	return info, nil
}

func (api) Occupancy(f driver.Function, threads, shared int) (int, error) {
	n, err := functionOf(f).MaxActiveBlocksPerMultiProcessor(threads, int64(shared))
	return n, wrap("cuOccupancyMaxActiveBlocksPerMultiprocessor", err)
}

func (api) MemAlloc(n int) (driver.DevicePtr, error) {
	p, err := cu.MemAlloc(int64(n))
	return driver.DevicePtr(p), wrap("cuMemAlloc", err)
}

func (api) MemFree(p driver.DevicePtr) error {
	return wrap("cuMemFree", cu.MemFree(cu.DevicePtr(p)))
}

func (api) MemsetAsync(p driver.DevicePtr, value byte, n int, s driver.Stream) error {
	return wrap("cuMemsetD8Async", cu.MemsetD8Async(cu.DevicePtr(p), value, int64(n), streamOf(s)))
}

func (api) HostFree(b []byte) error {
	return wrap("cuMemFreeHost", cu.MemFreeHost(unsafe.Pointer(unsafe.SliceData(b))))
}

func (api) CopyToDevice(dst driver.DevicePtr, src []byte, s driver.Stream) error {
	return wrap("cuMemcpyHtoDAsync", cu.MemcpyHtoDAsync(cu.DevicePtr(dst), unsafe.Pointer(unsafe.SliceData(src)), int64(len(src)), streamOf(s)))
}

func (api) CopyToHost(dst []byte, src driver.DevicePtr, s driver.Stream) error {
	return wrap("cuMemcpyDtoHAsync", cu.MemcpyDtoHAsync(unsafe.Pointer(unsafe.SliceData(dst)), cu.DevicePtr(src), int64(len(dst)), streamOf(s)))
}

func (api) StreamCreate(priority int) (driver.Stream, error) {
	s, err := cu.MakeStreamWithPriority(priority, cu.NonBlocking)
	return streamNumber(s), wrap("cuStreamCreateWithPriority", err)
}

func (api) StreamDestroy(s driver.Stream) error {
	stream := streamOf(s)
	return wrap("cuStreamDestroy", stream.Destroy())
}

func (api) StreamSynchronize(s driver.Stream) error {
	return wrap("cuStreamSynchronize", streamOf(s).Synchronize())
}

func (api) StreamWaitEvent(s driver.Stream, e driver.Event) error {
	return wrap("cuStreamWaitEvent", streamOf(s).Wait(eventOf(e), 0))
}

func (api) EventCreate(flags driver.EventFlags) (driver.Event, error) {
	e, err := cu.MakeEvent(cu.EventFlags(flags))
	return eventNumber(e), wrap("cuEventCreate", err)
}

func (api) EventDestroy(e driver.Event) error {
	event := eventOf(e)
	return wrap("cuEventDestroy", cu.DestroyEvent(&event))
}

func (api) EventRecord(e driver.Event, s driver.Stream) error {
	return wrap("cuEventRecord", eventOf(e).Record(streamOf(s)))
}

func (api) EventSynchronize(e driver.Event) error {
	return wrap("cuEventSynchronize", eventOf(e).Synchronize())
}

func (api) EventElapsed(from, to driver.Event) (time.Duration, error) {
	ms, err := eventOf(from).Elapsed(eventOf(to))
	return time.Duration(ms * float64(time.Millisecond)), wrap("cuEventElapsedTime", err)
}

func (api) Launch(f driver.Function, shape driver.Shape, params *driver.Params, s driver.Stream) error {
	grid, block := shape.Grid.Filled(), shape.Block.Filled()
	err := functionOf(f).Launch(int(grid.X), int(grid.Y), int(grid.Z), int(block.X), int(block.Y), int(block.Z), shape.Shared, streamOf(s), params.Addresses())
	return wrap("cuLaunchKernel", err)
}
