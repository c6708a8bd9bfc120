package driver

import (
	"time"
)

// LibraryEnv names the environment variable that overrides the driver library's path.
const LibraryEnv = "CTRUTLS_LIBCUDA"

// DefaultLibrary is what Open loads if neither its argument nor the environment names a path.
const DefaultLibrary = "libcuda.so.1"

// Handles of the driver. The zero value is none (for a Stream: the context's default stream).
type (
	Context  uintptr
	Module   uintptr
	Function uintptr
	Stream   uintptr
	Event    uintptr
)

// A DevicePtr is an address in device memory, or the device's address of pinned host memory. The host cannot follow it.
type DevicePtr uint64

// Offset returns the address n bytes further.
func (p DevicePtr) Offset(n int) DevicePtr { return p + DevicePtr(n) }

// DeviceInfo describes a device.
type DeviceInfo struct {
	Name              string
	PCIBusID          string // "0000:17:00.0"
	Memory            uint64 // bytes
	Major, Minor      int    // compute capability
	Multiprocessors   int
	AsyncEngines      int // copies that run beside kernels
	MaxSharedPerBlock int // bytes of shared memory that a block may opt in to
}

// FunctionInfo describes a compiled kernel.
type FunctionInfo struct {
	MaxThreads       int // threads a block, as the kernel's launch bounds and registers allow
	Registers        int // a thread
	SharedBytes      int // static shared memory a block
	LocalBytes       int // local memory a thread
	MaxDynamicShared int // bytes; see SetMaxDynamicShared
	PTXVersion       int // 80 for compute capability 8.0: what it was compiled from
	BinaryVersion    int // what it was compiled to
}

// ContextFlags choose how the Synchronize calls wait for a device.
type ContextFlags uint32

const (
	ScheduleAuto     ContextFlags = 0 // CUDA decides
	ScheduleSpin     ContextFlags = 1 // lowest latency, one busy core a waiting thread
	ScheduleYield    ContextFlags = 2 // spin, yielding
	ScheduleBlocking ContextFlags = 4 // sleep
)

// EventFlags choose what an event can do.
type EventFlags uint32

const (
	EventBlocking EventFlags = 1 // EventSynchronize sleeps instead of spinning
	EventNoTiming EventFlags = 2 // cheaper; EventElapsed fails
)

// Dim is a grid's or a block's size. A zero component counts as 1.
type Dim struct{ X, Y, Z uint32 }

// Filled returns d with 1 for each zero.
func (d Dim) Filled() Dim { return Dim{max(d.X, 1), max(d.Y, 1), max(d.Z, 1)} }

// Shape is the geometry of a launch.
type Shape struct {
	Grid, Block Dim
	Shared      int // dynamic shared memory a block, bytes
}

// API is the part of CUDA's driver API that this module uses. See the package comment for the rules on threads, memory and errors
// that hold for all of it. Sizes are in bytes.
type API interface {
	// Version returns the CUDA version that the driver supports: 12040 for 12.4.
	Version() int
	DeviceCount() (int, error)
	DeviceInfo(device int) (DeviceInfo, error)

	// PrimaryCtxRetain returns the device's primary context, creating it for the first of its users. It does not make it
	// current. Each call is matched by a PrimaryCtxRelease; the last of these destroys the context and all that is in it.
	PrimaryCtxRetain(device int) (Context, error)
	PrimaryCtxRelease(device int) error
	// PrimaryCtxActive says whether the primary context exists: whether somebody in the process retains it, through this package or otherwise.
	PrimaryCtxActive(device int) (bool, error)
	// PrimaryCtxReset destroys the context at once, whoever retains it, and with it its memory (pinned host memory
	// too), streams, events and modules. It is the one cure for a sticky error, and does not always work: retain again and see.
	PrimaryCtxReset(device int) error
	// PrimaryCtxSetFlags takes effect at once if the context exists, else when it is created.
	PrimaryCtxSetFlags(device int, flags ContextFlags) error
	// CtxSetCurrent makes ctx the calling thread's context; 0 leaves it with none.
	CtxSetCurrent(ctx Context) error
	// CtxSynchronize waits for all work in the current context.
	CtxSynchronize() error
	// MemInfo returns the device memory that is free and all there is. It waits for nothing and fails with the context's sticky
	// error if there is one, so it also tells whether a context is healthy.
	MemInfo() (free, total uint64, err error)

	// ModuleLoad compiles PTX for the current device. It returns a VersionError if the driver or the device is too old
	// for it.
	ModuleLoad(ptx []byte) (Module, error)
	ModuleUnload(m Module) error
	ModuleFunction(m Module, name string) (Function, error)
	FunctionInfo(f Function) (FunctionInfo, error)
	// SetMaxDynamicShared allows launches of f with up to n bytes of dynamic shared memory; without it 48 KiB less f's static
	// shared memory are allowed.
	SetMaxDynamicShared(f Function, n int) error
	// Occupancy returns how many blocks of f with this many threads and bytes of dynamic shared memory one multiprocessor holds.
	Occupancy(f Function, threads, shared int) (int, error)

	// MemAlloc returns n > 0 bytes of device memory, uninitialised, aligned to 256 at least.
	MemAlloc(n int) (DevicePtr, error)
	MemFree(p DevicePtr) error
	MemsetAsync(p DevicePtr, value byte, n int, s Stream) error
	// HostAlloc returns n > 0 bytes of page-locked host memory that every device can copy from and to, and that kernels reach
	// through HostDevicePtr. It is not Go memory: the slice must not be used after HostFree, or after the current
	// context is destroyed.
	HostAlloc(n int) ([]byte, error)
	// HostFree frees what HostAlloc returned (the slice's start counts).
	HostFree(b []byte) error
	// HostDevicePtr returns the address under which the current device's kernels reach what HostAlloc returned.
	HostDevicePtr(b []byte) (DevicePtr, error)
	CopyToDevice(dst DevicePtr, src []byte, s Stream) error
	CopyToHost(dst []byte, src DevicePtr, s Stream) error

	// StreamCreate returns a stream that does not wait for the default stream. Lower numbers are served first; 0 is
	// the usual priority, and the driver clamps others to its range.
	StreamCreate(priority int) (Stream, error)
	// StreamDestroy returns at once; work in the stream goes on to its end.
	StreamDestroy(s Stream) error
	// StreamQuery says whether all work in the stream is done.
	StreamQuery(s Stream) (done bool, err error)
	StreamSynchronize(s Stream) error
	// StreamWaitEvent makes later work in s wait for the event's latest record, if there is one.
	StreamWaitEvent(s Stream, e Event) error

	EventCreate(flags EventFlags) (Event, error)
	EventDestroy(e Event) error
	EventRecord(e Event, s Stream) error
	// EventQuery says whether all work before the event's latest record is done; so does an event never recorded.
	EventQuery(e Event) (done bool, err error)
	EventSynchronize(e Event) error
	// EventElapsed returns the time between two records that are done.
	EventElapsed(from, to Event) (time.Duration, error)

	// Launch puts one launch of f into the stream. It reads params before it returns; they match the kernel's parameters
	// in number and size, which CUDA cannot check.
	Launch(f Function, shape Shape, params *Params, s Stream) error
}
