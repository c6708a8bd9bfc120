package driver

import (
	"errors"
	"fmt"
)

// DefaultMonitorLibrary is what OpenMonitor loads unless told otherwise. It comes with the NVIDIA driver.
const DefaultMonitorLibrary = "libnvidia-ml.so.1"

// ErrNoMonitor is what OpenMonitor's error wraps where there is no NVML: the machine has no NVIDIA driver, or one without it.
var ErrNoMonitor = errors.New("no NVML")

// A Reading is what a device's sensors say. Those that a device lacks say nothing: Has tells.
type Reading struct {
	Has                     Sensors
	MemoryUsed, MemoryTotal uint64  // bytes, of all processes
	Utilization             float64 // the share of the latest sample period, a sixth of a second to a second, in which a kernel ran
	Temperature             float64 // of the chip, degrees Celsius
	Power                   float64 // watts
}

// Sensors is a set of a Reading's fields.
type Sensors uint8

// The sensors.
const (
	HasMemory Sensors = 1 << iota
	HasUtilization
	HasTemperature
	HasPower
)

// A MonitorError is a failed call of NVML.
type MonitorError struct {
	Call   string // "nvmlInit_v2"
	Result int    // nvmlReturn_t
}

func (e *MonitorError) Error() string {
	return fmt.Sprintf("driver: %s: NVML error %d", e.Call, e.Result)
}
