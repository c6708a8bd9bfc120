package driver

import (
	"errors"
	"fmt"
)

// ErrNoDriver is what Open's error wraps where the driver library cannot be loaded: the machine has no NVIDIA driver, or
// the path that was configured is wrong.
var ErrNoDriver = errors.New("no NVIDIA driver")

// ErrTooOld is what a [VersionError] wraps.
var ErrTooOld = errors.New("too old")

// A VersionError says that the driver or the device cannot run what it was given.
type VersionError struct {
	What string // "the NVIDIA driver" or "the device"
	Have string // "CUDA 10.2", "compute capability 7.5"
	Need string
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("driver: %s is too old: it has %s, %s or later is needed", e.What, e.Have, e.Need)
}

func (e *VersionError) Unwrap() error { return ErrTooOld }

// A Result is the number of a CUDA driver error (CUresult). It is an error so that errors.Is can compare with it.
type Result int32

// The results that callers tell apart.
const (
	ErrInvalidValue          Result = 1
	ErrOutOfMemory           Result = 2
	ErrNotInitialized        Result = 3
	ErrDeviceUnavailable     Result = 46
	ErrNoDevice              Result = 100
	ErrInvalidDevice         Result = 101
	ErrInvalidImage          Result = 200
	ErrInvalidContext        Result = 201
	ErrNoBinaryForGPU        Result = 209
	ErrECCUncorrectable      Result = 214
	ErrInvalidPTX            Result = 218
	ErrUnsupportedPTXVersion Result = 222
	ErrInvalidHandle         Result = 400
	ErrNotFound              Result = 500
	ErrIllegalAddress        Result = 700
	ErrLaunchOutOfResources  Result = 701
	ErrLaunchTimeout         Result = 702
	ErrContextIsDestroyed    Result = 709
	ErrAssert                Result = 710
	ErrIllegalInstruction    Result = 715
	ErrMisalignedAddress     Result = 716
	ErrInvalidAddressSpace   Result = 717
	ErrInvalidPC             Result = 718
	ErrLaunchFailed          Result = 719
	ErrUnknown               Result = 999

	notReady Result = 600
)

func (r Result) Error() string { return fmt.Sprintf("driver: CUDA error %d", int32(r)) }

// Sticky says whether the result leaves its context unusable: what kernels do wrong, and what happens to the device.
func (r Result) Sticky() bool {
	switch r {
	case ErrECCUncorrectable, ErrIllegalAddress, ErrLaunchTimeout, ErrAssert, ErrIllegalInstruction, ErrMisalignedAddress,
		ErrInvalidAddressSpace, ErrInvalidPC, ErrLaunchFailed, ErrUnknown:
		return true
	}
	return false
}

// An Error is a failed call of the driver API.
type Error struct {
	Call   string // "cuMemAlloc"
	Result Result
	Name   string // "CUDA_ERROR_OUT_OF_MEMORY"; empty if the driver does not know the number
	Text   string // the driver's own words
	Detail string // what else the call reported, such as the PTX compiler's log
}

func (e *Error) Error() string {
	name := e.Name
	if name == "" {
		name = "unknown result"
	}
	s := fmt.Sprintf("driver: %s: %s (%d)", e.Call, name, int32(e.Result))
	if e.Text != "" {
		s += ": " + e.Text
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

func (e *Error) Unwrap() error { return e.Result }
