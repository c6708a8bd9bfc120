package gpu

import (
	"errors"
	"sync"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
)

// sensorTime is how long Stats and Close wait for sensors: NVML may hang as the driver may, and whoever asks how the engine stands wants an answer most of
// all then.
var sensorTime = time.Second

var errSensors = errors.New("gpu: NVML does not return from a call")

// A monitor reads sensors; driver.Monitor is one.
type monitor interface {
	Read(pciBusID string) (driver.Reading, error)
	Close() error
}

// A reading is done by one goroutine for all who ask meanwhile.
type reading struct {
	sync.Mutex
	done   chan struct{} // closed when it is there; nil before the first
	latest driver.Reading
	err    error
}

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
	for _, d := range e.devices {
		d.sensing.Lock()
		done := d.sensing.done
		d.sensing.Unlock()
		if done != nil && !soonEnough(done) {
			return errSensors // and NVML is left as it is
		}
	}
	return e.monitor.Close()
}

// readSensors returns what the device's sensors say, if they say it in time.
func (d *device) readSensors() (driver.Reading, error) {
	r := &d.sensing
	r.Lock()
	if r.done == nil || isClosed(r.done) {
		done := make(chan struct{})
		r.done = done
		go func() {
			latest, err := d.engine.monitor.Read(d.info.PCIBusID)
			r.Lock()
			defer r.Unlock()
			r.latest, r.err = latest, err
			close(done)
		}()
	}
	done := r.done
	r.Unlock()
	if !soonEnough(done) {
		return driver.Reading{}, errSensors
	}
	r.Lock()
	defer r.Unlock()
	return r.latest, r.err
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// soonEnough waits until a channel is closed, for sensorTime at most, and says whether it is.
func soonEnough(c <-chan struct{}) bool {
	t := time.NewTimer(sensorTime)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

// sense adds what the device's sensors say.
func (d *device) sense(st *DeviceStats) {
	if d.engine.monitor == nil {
		return
	}
	r, err := d.readSensors()
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
