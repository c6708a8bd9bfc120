package gpu

import (
	"github.com/ctrutls/ctrutls/gpu/driver"
)

// openMonitor finds NVML, in the driver's own library first where the configuration names one: that of the simulator has it. A machine without
// is served all the same.
func (e *Engine) openMonitor() {
	paths := []string{""}
	if e.config.Library != "" {
		paths = []string{e.config.Library, ""}
	}
	for _, path := range paths {
		m, err := driver.OpenMonitor(path)
		if err == nil {
			e.monitor = m
			return
		}
	}
}

func (e *Engine) closeMonitor() error {
	if e.monitor == nil {
		return nil
	}
	return e.monitor.Close()
}

// sense adds what the device's sensors say.
func (d *device) sense(st *DeviceStats) {
	if d.engine.monitor == nil {
		return
	}
	r, err := d.engine.monitor.Read(d.info.PCIBusID)
	if err != nil {
		return // the device's state says more
	}
	for _, s := range []struct {
		has   driver.Sensors
		field **float64
		value float64
	}{
		{driver.HasUtilization, &st.Utilization, r.Utilization},
		{driver.HasTemperature, &st.Temperature, r.Temperature},
		{driver.HasPower, &st.Power, r.Power},
	} {
		if r.Has&s.has != 0 {
			*s.field = new(s.value)
		}
	}
	if r.Has&driver.HasMemory != 0 {
		st.MemoryUsed = new(r.MemoryUsed)
	}
}
