//go:build (linux || freebsd || darwin) && (amd64 || arm64)

package driver

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

// A Monitor reads devices' sensors through NVML, which needs no context and no thread of its own. Its methods may be called concurrently.
type Monitor struct {
	initialize, shutdown, handle, memory, utilization, temperature, power uintptr
}

// OpenMonitor loads NVML from the path, or from DefaultMonitorLibrary as the system's loader finds it. Its error wraps ErrNoMonitor if there is no such
// library.
func OpenMonitor(path string) (*Monitor, error) {
	if path == "" {
		path = DefaultMonitorLibrary
	}
	library, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("driver: %w: cannot load %s: %w", ErrNoMonitor, path, err)
	}
	m := new(Monitor)
	for name, address := range map[string]*uintptr{
		"nvmlInit_v2": &m.initialize, "nvmlShutdown": &m.shutdown, "nvmlDeviceGetHandleByPciBusId_v2": &m.handle,
		"nvmlDeviceGetMemoryInfo": &m.memory, "nvmlDeviceGetUtilizationRates": &m.utilization,
		"nvmlDeviceGetTemperature": &m.temperature, "nvmlDeviceGetPowerUsage": &m.power,
	} {
		if *address, err = purego.Dlsym(library, name); err != nil {
			return nil, fmt.Errorf("driver: %w: %s has no %s", ErrNoMonitor, path, name)
		}
	}
	return m, m.check("nvmlInit_v2", call(m.initialize))
}

func (m *Monitor) check(name string, r Result) error {
	if r == 0 {
		return nil
	}
	return &MonitorError{Call: name, Result: int(r)}
}

// Read reads the sensors of the device with that PCI bus ID, as DeviceInfo has it. A sensor that fails is left out; the error is about the device.
func (m *Monitor) Read(pciBusID string) (Reading, error) {
	device := new(uintptr)
	if err := m.check("nvmlDeviceGetHandleByPciBusId_v2", call(m.handle, uintptr(unsafe.Pointer(cString(pciBusID))), uintptr(unsafe.Pointer(device)))); err != nil {
		return Reading{}, err
	}
	var reading Reading
	memory, rates, value := new([3]uint64), new([2]uint32), new(uint32) // nvmlMemory_t: total, free, used; nvmlUtilization_t: gpu, memory
	if call(m.memory, *device, uintptr(unsafe.Pointer(memory))) == 0 {
		reading.Has |= HasMemory
		reading.MemoryTotal, reading.MemoryUsed = memory[0], memory[2]
	}
	if call(m.utilization, *device, uintptr(unsafe.Pointer(rates))) == 0 {
		reading.Has |= HasUtilization
		reading.Utilization = float64(rates[0]) / 100
	}
	const chip = 0 // NVML_TEMPERATURE_GPU
	if call(m.temperature, *device, chip, uintptr(unsafe.Pointer(value))) == 0 {
		reading.Has |= HasTemperature
		reading.Temperature = float64(*value)
	}
	if call(m.power, *device, uintptr(unsafe.Pointer(value))) == 0 {
		reading.Has |= HasPower
		reading.Power = float64(*value) / 1000 // of milliwatts
	}
	return reading, nil
}

// Close lets go of NVML. The library stays loaded.
func (m *Monitor) Close() error { return m.check("nvmlShutdown", call(m.shutdown)) }
