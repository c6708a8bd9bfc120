package gpu

import "errors"

// What Reserve and Wait report. After each of them the operation is the caller's to do without a device.
var (
	// ErrBusy says that every buffer is taken.
	ErrBusy = errors.New("gpu: every batch is full")
	// ErrUnavailable says that no device is open.
	ErrUnavailable = errors.New("gpu: no device is available")
	// ErrLate says that the batch did not come back within Config.MaxWait.
	ErrLate = errors.New("gpu: the batch is late")
	// ErrFault says that the batch failed on its device; Engine.Stats says how.
	ErrFault = errors.New("gpu: the device failed")
)

// ErrConfig is wrapped by what Open reports of its Config.
var ErrConfig = errors.New("gpu: Config")

// What ends a session, beside errors of the driver.
var (
	errHang     = errors.New("gpu: a batch did not end")
	errStuck    = errors.New("gpu: the driver does not return from a call")
	errMismatch = errors.New("gpu: wrong result")
	errRestart  = errors.New("the device stays closed until this process is started again")
)
