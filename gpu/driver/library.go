//go:build (linux || freebsd || darwin) && (amd64 || arm64)

package driver

import (
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
)

// symbols are the addresses of the library's functions, under the ABI's names: where CUDA has revised a call, the
// library still exports the old one without the suffix.
type symbols struct {
	getErrorName, getErrorString, initialize, driverGetVersion                                   uintptr
	deviceGetCount, deviceGet, deviceGetName, deviceGetPCIBusID, deviceTotalMem, deviceAttribute uintptr
	primaryCtxRetain, primaryCtxRelease, primaryCtxReset, primaryCtxSetFlags, primaryCtxGetState uintptr
	ctxSetCurrent, ctxSynchronize, ctxGetDevice                                                  uintptr
	moduleLoadDataEx, moduleUnload, moduleGetFunction                                            uintptr
	funcGetAttribute, funcSetAttribute, occupancy                                                uintptr
	memAlloc, memFree, memGetInfo, memsetD8Async                                                 uintptr
	memHostAlloc, memFreeHost, memHostGetDevicePointer, memcpyHtoDAsync, memcpyDtoHAsync         uintptr
	streamCreate, streamDestroy, streamQuery, streamSynchronize, streamWaitEvent                 uintptr
	eventCreate, eventDestroy, eventRecord, eventQuery, eventSynchronize, eventElapsedTime       uintptr
	launchKernel                                                                                 uintptr
}

func (s *symbols) table() map[string]*uintptr {
	return map[string]*uintptr{
		"cuGetErrorName":                              &s.getErrorName,
		"cuGetErrorString":                            &s.getErrorString,
		"cuInit":                                      &s.initialize,
		"cuDriverGetVersion":                          &s.driverGetVersion,
		"cuDeviceGetCount":                            &s.deviceGetCount,
		"cuDeviceGet":                                 &s.deviceGet,
		"cuDeviceGetName":                             &s.deviceGetName,
		"cuDeviceGetPCIBusId":                         &s.deviceGetPCIBusID,
		"cuDeviceTotalMem_v2":                         &s.deviceTotalMem,
		"cuDeviceGetAttribute":                        &s.deviceAttribute,
		"cuDevicePrimaryCtxRetain":                    &s.primaryCtxRetain,
		"cuDevicePrimaryCtxRelease_v2":                &s.primaryCtxRelease,
		"cuDevicePrimaryCtxReset_v2":                  &s.primaryCtxReset,
		"cuDevicePrimaryCtxSetFlags_v2":               &s.primaryCtxSetFlags,
		"cuDevicePrimaryCtxGetState":                  &s.primaryCtxGetState,
		"cuCtxSetCurrent":                             &s.ctxSetCurrent,
		"cuCtxSynchronize":                            &s.ctxSynchronize,
		"cuCtxGetDevice":                              &s.ctxGetDevice,
		"cuModuleLoadDataEx":                          &s.moduleLoadDataEx,
		"cuModuleUnload":                              &s.moduleUnload,
		"cuModuleGetFunction":                         &s.moduleGetFunction,
		"cuFuncGetAttribute":                          &s.funcGetAttribute,
		"cuFuncSetAttribute":                          &s.funcSetAttribute,
		"cuOccupancyMaxActiveBlocksPerMultiprocessor": &s.occupancy,
		"cuMemAlloc_v2":                               &s.memAlloc,
		"cuMemFree_v2":                                &s.memFree,
		"cuMemGetInfo_v2":                             &s.memGetInfo,
		"cuMemsetD8Async":                             &s.memsetD8Async,
		"cuMemHostAlloc":                              &s.memHostAlloc,
		"cuMemFreeHost":                               &s.memFreeHost,
		"cuMemHostGetDevicePointer_v2":                &s.memHostGetDevicePointer,
		"cuMemcpyHtoDAsync_v2":                        &s.memcpyHtoDAsync,
		"cuMemcpyDtoHAsync_v2":                        &s.memcpyDtoHAsync,
		"cuStreamCreateWithPriority":                  &s.streamCreate,
		"cuStreamDestroy_v2":                          &s.streamDestroy,
		"cuStreamQuery":                               &s.streamQuery,
		"cuStreamSynchronize":                         &s.streamSynchronize,
		"cuStreamWaitEvent":                           &s.streamWaitEvent,
		"cuEventCreate":                               &s.eventCreate,
		"cuEventDestroy_v2":                           &s.eventDestroy,
		"cuEventRecord":                               &s.eventRecord,
		"cuEventQuery":                                &s.eventQuery,
		"cuEventSynchronize":                          &s.eventSynchronize,
		"cuEventElapsedTime":                          &s.eventElapsedTime,
		"cuLaunchKernel":                              &s.launchKernel,
	}
}

// library is the API through purego.
type library struct {
	symbols
	version int
}

// openLibrary is Open through purego. A library stays loaded until the process ends; opening it again is cheap.
func openLibrary(path string) (API, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("driver: %w: cannot load %s (set %s if it is elsewhere): %w", ErrNoDriver, path, LibraryEnv, err)
	}
	l := new(library)
	missing := ""
	for name, address := range l.table() {
		*address, err = purego.Dlsym(handle, name)
		if err != nil && (missing == "" || name < missing) {
			missing = name
		}
	}
	if l.driverGetVersion == 0 || l.initialize == 0 {
		return nil, fmt.Errorf("driver: %w: %s is no CUDA driver library", ErrNoDriver, path)
	}
	version := new(int32)
	if r := call(l.driverGetVersion, uintptr(unsafe.Pointer(version))); r != 0 {
		return nil, l.failed("cuDriverGetVersion", r)
	}
	l.version = int(*version)
	if err := CheckVersion(l.version, missing == ""); err != nil {
		return nil, err
	}
	if r := call(l.initialize, 0); r != 0 {
		return nil, l.failed("cuInit", r)
	}
	return l, nil
}

// call calls a function of the library. Pointers are converted in the call's argument list: the directive below moves what they
// point to to the heap, where it stays put, and keeps it alive until the call returns.
//
//go:uintptrescapes
func call(function uintptr, arguments ...uintptr) Result {
	r, _, _ := purego.SyscallN(function, arguments...)
	return Result(int32(r))
}

// arguments are those of the calls that batches make over and over.
type arguments [11]uintptr

var argumentPool = sync.Pool{New: func() any { return new(arguments) }}

// callHot is call without its allocation of the argument list. Nothing keeps alive what a pointer among the n arguments points
// to: the caller does.
func callHot(function uintptr, n int, list arguments) Result {
	a := argumentPool.Get().(*arguments)
	*a = list
	r, _, _ := purego.SyscallN(function, a[:n]...)
	argumentPool.Put(a)
	return Result(int32(r))
}

// check turns a call's result into an error.
func (l *library) check(name string, r Result) error {
	if r == 0 {
		return nil
	}
	return l.failed(name, r)
}

func (l *library) failed(name string, r Result) *Error {
	e := &Error{Call: name, Result: r}
	text := new(*byte)
	if l.getErrorName != 0 && call(l.getErrorName, uintptr(r), uintptr(unsafe.Pointer(text))) == 0 {
		e.Name = goString(*text)
	}
	*text = nil
	if l.getErrorString != 0 && call(l.getErrorString, uintptr(r), uintptr(unsafe.Pointer(text))) == 0 {
		e.Text = goString(*text)
	}
	return e
}

func goString(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

func cString(s string) *byte {
	b := make([]byte, len(s)+1)
	copy(b, s)
	return &b[0]
}

func (l *library) Version() int { return l.version }

func (l *library) DeviceCount() (int, error) {
	n := new(int32)
	err := l.check("cuDeviceGetCount", call(l.deviceGetCount, uintptr(unsafe.Pointer(n))))
	return int(*n), err
}

// CUdevice_attribute
const (
	attributeMultiprocessors = 16
	attributeAsyncEngines    = 40
	attributeMajor           = 75
	attributeMinor           = 76
	attributeSharedOptIn     = 97 // with opt-in
)

func (l *library) DeviceInfo(number int) (DeviceInfo, error) {
	device := new(int32)
	if err := l.check("cuDeviceGet", call(l.deviceGet, uintptr(unsafe.Pointer(device)), uintptr(number))); err != nil {
		return DeviceInfo{}, err
	}
	var info DeviceInfo
	name := new([256]byte)
	if err := l.check("cuDeviceGetName", call(l.deviceGetName, uintptr(unsafe.Pointer(name)), 256, uintptr(*device))); err != nil {
		return DeviceInfo{}, err
	}
	info.Name = goString(&name[0])
	bus := new([32]byte)
	if err := l.check("cuDeviceGetPCIBusId", call(l.deviceGetPCIBusID, uintptr(unsafe.Pointer(bus)), 32, uintptr(*device))); err != nil {
		return DeviceInfo{}, err
	}
	info.PCIBusID = goString(&bus[0])
	if err := l.check("cuDeviceTotalMem", call(l.deviceTotalMem, uintptr(unsafe.Pointer(&info.Memory)), uintptr(*device))); err != nil {
		return DeviceInfo{}, err
	}
	for attribute, field := range map[int]*int{
		attributeMultiprocessors: &info.Multiprocessors,
		attributeAsyncEngines:    &info.AsyncEngines,
		attributeMajor:           &info.Major,
		attributeMinor:           &info.Minor,
		attributeSharedOptIn:     &info.MaxSharedPerBlock,
	} {
		value, err := l.deviceAttributeOf(*device, attribute)
		if err != nil {
			return DeviceInfo{}, err
		}
		*field = value
	}
	return info, nil
}

func (l *library) deviceAttributeOf(device int32, attribute int) (int, error) {
	value := new(int32)
	err := l.check("cuDeviceGetAttribute", call(l.deviceAttribute, uintptr(unsafe.Pointer(value)), uintptr(attribute), uintptr(device)))
	return int(*value), err
}

func (l *library) PrimaryCtxRetain(device int) (Context, error) {
	c := new(Context)
	err := l.check("cuDevicePrimaryCtxRetain", call(l.primaryCtxRetain, uintptr(unsafe.Pointer(c)), uintptr(device)))
	return *c, err
}

func (l *library) PrimaryCtxRelease(device int) error {
	return l.check("cuDevicePrimaryCtxRelease", call(l.primaryCtxRelease, uintptr(device)))
}

func (l *library) PrimaryCtxActive(device int) (bool, error) {
	flags, active := new(uint32), new(int32)
	r := call(l.primaryCtxGetState, uintptr(device), uintptr(unsafe.Pointer(flags)), uintptr(unsafe.Pointer(active)))
	return *active != 0, l.check("cuDevicePrimaryCtxGetState", r)
}

func (l *library) PrimaryCtxReset(device int) error {
	return l.check("cuDevicePrimaryCtxReset", call(l.primaryCtxReset, uintptr(device)))
}

func (l *library) PrimaryCtxSetFlags(device int, flags ContextFlags) error {
	return l.check("cuDevicePrimaryCtxSetFlags", call(l.primaryCtxSetFlags, uintptr(device), uintptr(flags)))
}

func (l *library) CtxSetCurrent(ctx Context) error {
	return l.check("cuCtxSetCurrent", callHot(l.ctxSetCurrent, 1, arguments{uintptr(ctx)}))
}

func (l *library) CtxSynchronize() error {
	return l.check("cuCtxSynchronize", call(l.ctxSynchronize))
}

func (l *library) MemInfo() (free, total uint64, err error) {
	sizes := new([2]uint64)
	err = l.check("cuMemGetInfo", call(l.memGetInfo, uintptr(unsafe.Pointer(&sizes[0])), uintptr(unsafe.Pointer(&sizes[1]))))
	return sizes[0], sizes[1], err
}

// CUjit_option
const (
	jitErrorLogBuffer      = 5
	jitErrorLogBufferBytes = 6
)

func (l *library) ModuleLoad(ptx []byte) (Module, error) {
	device := new(int32)
	if err := l.check("cuCtxGetDevice", call(l.ctxGetDevice, uintptr(unsafe.Pointer(device)))); err != nil {
		return 0, err
	}
	major, err := l.deviceAttributeOf(*device, attributeMajor)
	if err != nil {
		return 0, err
	}
	minor, err := l.deviceAttributeOf(*device, attributeMinor)
	if err != nil {
		return 0, err
	}
	if err := CheckPTX(ptx, l.version, major, minor); err != nil {
		return 0, err
	}

	image := append(ptx[:len(ptx):len(ptx)], 0) // the driver reads to the zero
	log := make([]byte, 8<<10)
	options := &[2]int32{jitErrorLogBuffer, jitErrorLogBufferBytes}
	values := &[2]uintptr{uintptr(unsafe.Pointer(&log[0])), uintptr(len(log) - 1)}
	m := new(Module)
	r := call(l.moduleLoadDataEx, uintptr(unsafe.Pointer(m)), uintptr(unsafe.Pointer(&image[0])), uintptr(len(options)),
		uintptr(unsafe.Pointer(options)), uintptr(unsafe.Pointer(values)))
	runtime.KeepAlive(log)
	if r != 0 {
		e := l.failed("cuModuleLoadDataEx", r)
		e.Detail = goString(&log[0])
		return 0, e
	}
	return *m, nil
}

func (l *library) ModuleUnload(m Module) error {
	return l.check("cuModuleUnload", call(l.moduleUnload, uintptr(m)))
}

func (l *library) ModuleFunction(m Module, name string) (Function, error) {
	f := new(Function)
	r := call(l.moduleGetFunction, uintptr(unsafe.Pointer(f)), uintptr(m), uintptr(unsafe.Pointer(cString(name))))
	if r != 0 {
		e := l.failed("cuModuleGetFunction", r)
		e.Detail = name
		return 0, e
	}
	return *f, nil
}

// CUfunction_attribute
const (
	functionMaxThreads       = 0
	functionSharedBytes      = 1
	functionLocalBytes       = 3
	functionRegisters        = 4
	functionPTXVersion       = 5
	functionBinaryVersion    = 6
	functionMaxDynamicShared = 8
)

func (l *library) FunctionInfo(f Function) (FunctionInfo, error) {
	var info FunctionInfo
	for attribute, field := range map[int]*int{
		functionMaxThreads:       &info.MaxThreads,
		functionSharedBytes:      &info.SharedBytes,
		functionLocalBytes:       &info.LocalBytes,
		functionRegisters:        &info.Registers,
		functionPTXVersion:       &info.PTXVersion,
		functionBinaryVersion:    &info.BinaryVersion,
		functionMaxDynamicShared: &info.MaxDynamicShared,
	} {
		value := new(int32)
		r := call(l.funcGetAttribute, uintptr(unsafe.Pointer(value)), uintptr(attribute), uintptr(f))
		if err := l.check("cuFuncGetAttribute", r); err != nil {
			return FunctionInfo{}, err
		}
		*field = int(*value)
	}
	return info, nil
}

func (l *library) SetMaxDynamicShared(f Function, n int) error {
	return l.check("cuFuncSetAttribute", call(l.funcSetAttribute, uintptr(f), functionMaxDynamicShared, uintptr(n)))
}

func (l *library) Occupancy(f Function, threads, shared int) (int, error) {
	n := new(int32)
	r := call(l.occupancy, uintptr(unsafe.Pointer(n)), uintptr(f), uintptr(threads), uintptr(shared))
	return int(*n), l.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", r)
}

func (l *library) MemAlloc(n int) (DevicePtr, error) {
	p := new(DevicePtr)
	err := l.check("cuMemAlloc", call(l.memAlloc, uintptr(unsafe.Pointer(p)), uintptr(n)))
	return *p, err
}

func (l *library) MemFree(p DevicePtr) error {
	return l.check("cuMemFree", call(l.memFree, uintptr(p)))
}

func (l *library) MemsetAsync(p DevicePtr, value byte, n int, s Stream) error {
	return l.check("cuMemsetD8Async", callHot(l.memsetD8Async, 4, arguments{uintptr(p), uintptr(value), uintptr(n), uintptr(s)}))
}

// CU_MEMHOSTALLOC_*
const (
	hostPortable = 1
	hostMapped   = 2
)

func (l *library) HostAlloc(n int) ([]byte, error) {
	p := new(*byte)
	r := call(l.memHostAlloc, uintptr(unsafe.Pointer(p)), uintptr(n), hostPortable|hostMapped)
	if err := l.check("cuMemHostAlloc", r); err != nil {
		return nil, err
	}
	return unsafe.Slice(*p, n), nil
}

func (l *library) HostFree(b []byte) error {
	return l.check("cuMemFreeHost", call(l.memFreeHost, uintptr(unsafe.Pointer(unsafe.SliceData(b)))))
}

func (l *library) HostDevicePtr(b []byte) (DevicePtr, error) {
	p := new(DevicePtr)
	r := call(l.memHostGetDevicePointer, uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(unsafe.SliceData(b))), 0)
	return *p, l.check("cuMemHostGetDevicePointer", r)
}

func (l *library) CopyToDevice(dst DevicePtr, src []byte, s Stream) error {
	r := callHot(l.memcpyHtoDAsync, 4, arguments{uintptr(dst), uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(len(src)), uintptr(s)})
	runtime.KeepAlive(src)
	return l.check("cuMemcpyHtoDAsync", r)
}

func (l *library) CopyToHost(dst []byte, src DevicePtr, s Stream) error {
	r := callHot(l.memcpyDtoHAsync, 4, arguments{uintptr(unsafe.Pointer(unsafe.SliceData(dst))), uintptr(src), uintptr(len(dst)), uintptr(s)})
	runtime.KeepAlive(dst)
	return l.check("cuMemcpyDtoHAsync", r)
}

const streamNonBlocking = 1

func (l *library) StreamCreate(priority int) (Stream, error) {
	s := new(Stream)
	r := call(l.streamCreate, uintptr(unsafe.Pointer(s)), streamNonBlocking, uintptr(priority))
	return *s, l.check("cuStreamCreateWithPriority", r)
}

func (l *library) StreamDestroy(s Stream) error {
	return l.check("cuStreamDestroy", call(l.streamDestroy, uintptr(s)))
}

// done reads the result of a query.
func (l *library) done(name string, r Result) (bool, error) {
	if r == notReady {
		return false, nil
	}
	return r == 0, l.check(name, r)
}

func (l *library) StreamQuery(s Stream) (bool, error) {
	return l.done("cuStreamQuery", callHot(l.streamQuery, 1, arguments{uintptr(s)}))
}

func (l *library) StreamSynchronize(s Stream) error {
	return l.check("cuStreamSynchronize", callHot(l.streamSynchronize, 1, arguments{uintptr(s)}))
}

func (l *library) StreamWaitEvent(s Stream, e Event) error {
	return l.check("cuStreamWaitEvent", callHot(l.streamWaitEvent, 3, arguments{uintptr(s), uintptr(e), 0}))
}

func (l *library) EventCreate(flags EventFlags) (Event, error) {
	e := new(Event)
	err := l.check("cuEventCreate", call(l.eventCreate, uintptr(unsafe.Pointer(e)), uintptr(flags)))
	return *e, err
}

func (l *library) EventDestroy(e Event) error {
	return l.check("cuEventDestroy", call(l.eventDestroy, uintptr(e)))
}

func (l *library) EventRecord(e Event, s Stream) error {
	return l.check("cuEventRecord", callHot(l.eventRecord, 2, arguments{uintptr(e), uintptr(s)}))
}

func (l *library) EventQuery(e Event) (bool, error) {
	return l.done("cuEventQuery", callHot(l.eventQuery, 1, arguments{uintptr(e)}))
}

func (l *library) EventSynchronize(e Event) error {
	return l.check("cuEventSynchronize", callHot(l.eventSynchronize, 1, arguments{uintptr(e)}))
}

func (l *library) EventElapsed(from, to Event) (time.Duration, error) {
	ms := new(float32)
	r := call(l.eventElapsedTime, uintptr(unsafe.Pointer(ms)), uintptr(from), uintptr(to))
	return time.Duration(float64(*ms) * float64(time.Millisecond)), l.check("cuEventElapsedTime", r)
}

func (l *library) Launch(f Function, shape Shape, params *Params, s Stream) error {
	grid, block := shape.Grid.Filled(), shape.Block.Filled()
	r := callHot(l.launchKernel, 11, arguments{uintptr(f), uintptr(grid.X), uintptr(grid.Y), uintptr(grid.Z), uintptr(block.X), uintptr(block.Y),
		uintptr(block.Z), uintptr(shape.Shared), uintptr(s), uintptr(unsafe.Pointer(unsafe.SliceData(params.Addresses()))), 0})
	runtime.KeepAlive(params)
	return l.check("cuLaunchKernel", r)
}
