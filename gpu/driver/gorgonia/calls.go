//go:build gorgonia && cgo && linux && (amd64 || arm64)

package gorgonia

/*
#cgo CFLAGS: -I${SRCDIR}/include
#cgo LDFLAGS: -L${SRCDIR}/stub -Wl,--as-needed -ldl
#include "trampolines.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/ctrutls/ctrutls/gpu/driver"
)

// opening makes callers of load take turns.
var opening sync.Mutex

// load leads cu's calls, and ours, to the library at path and initialises it; it returns the driver's version.
func load(path string) (version int, err error) {
	opening.Lock()
	defer opening.Unlock()
	cpath := C.CString(path)
	defer C.free(unsafe.Pointer(cpath))
	var o C.struct_ctrutls_cuda_opening
	switch C.ctrutls_cuda_open(cpath, &o) {
	case C.CTRUTLS_CUDA_NO_LIBRARY:
		return 0, fmt.Errorf("driver: %w: cannot load %s (set %s if it is elsewhere): %s", driver.ErrNoDriver, path, driver.LibraryEnv, C.GoString(&o.message[0]))
	case C.CTRUTLS_CUDA_NOT_CUDA:
		return 0, fmt.Errorf("driver: %w: %s is no CUDA driver library", driver.ErrNoDriver, path)
	case C.CTRUTLS_CUDA_SECOND:
		return 0, fmt.Errorf("driver: %s cannot be opened beside another driver library: with gorgonia.org/cu a process has one", path)
	case C.CTRUTLS_CUDA_NO_VERSION:
		return 0, failed("cuDriverGetVersion", driver.Result(o.result))
	}
	if err := driver.CheckVersion(int(o.version), o.complete != 0); err != nil {
		return 0, err
	}
	return int(o.version), check("cuInit", C.cuInit(0))
}

// check turns a call's result into an error.
func check(call string, r C.CUresult) error {
	if r == C.CUDA_SUCCESS {
		return nil
	}
	return failed(call, driver.Result(r))
}

func failed(call string, r driver.Result) *driver.Error {
	e := &driver.Error{Call: call, Result: r}
	var text *C.char
	if C.cuGetErrorName(C.CUresult(r), &text) == C.CUDA_SUCCESS {
		e.Name = C.GoString(text)
	}
	text = nil
	if C.cuGetErrorString(C.CUresult(r), &text) == C.CUDA_SUCCESS {
		e.Text = C.GoString(text)
	}
	return e
}

// done reads the result of a query.
func done(call string, r C.CUresult) (bool, error) {
	if r == C.CUDA_ERROR_NOT_READY {
		return false, nil
	}
	return r == C.CUDA_SUCCESS, check(call, r)
}

func pciBusID(device int) (string, error) {
	var id [32]C.char
	err := check("cuDeviceGetPCIBusId", C.cuDeviceGetPCIBusId(&id[0], C.int(len(id)), C.CUdevice(device)))
	return C.GoString(&id[0]), err
}

// The attributes that cu has no names for.
const (
	sharedMemoryOptIn = C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
	maxDynamicShared  = C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
)

func (api) SetMaxDynamicShared(f driver.Function, n int) error {
	return check("cuFuncSetAttribute", C.cuFuncSetAttribute(*(*C.CUfunction)(unsafe.Pointer(&f)), maxDynamicShared, C.int(n)))
}

func (api) HostAlloc(n int) ([]byte, error) {
	var p unsafe.Pointer
	if err := check("cuMemHostAlloc", C.cuMemHostAlloc(&p, C.size_t(n), C.CU_MEMHOSTALLOC_PORTABLE|C.CU_MEMHOSTALLOC_DEVICEMAP)); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), n), nil
}

func (api) HostDevicePtr(b []byte) (driver.DevicePtr, error) {
	var p C.CUdeviceptr
	err := check("cuMemHostGetDevicePointer", C.cuMemHostGetDevicePointer(&p, unsafe.Pointer(unsafe.SliceData(b)), 0))
	return driver.DevicePtr(p), err
}

func (api) StreamQuery(s driver.Stream) (bool, error) {
	return done("cuStreamQuery", C.cuStreamQuery(*(*C.CUstream)(unsafe.Pointer(&s))))
}

func (api) EventQuery(e driver.Event) (bool, error) {
	return done("cuEventQuery", C.cuEventQuery(*(*C.CUevent)(unsafe.Pointer(&e))))
}
