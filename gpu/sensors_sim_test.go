//go:build sim

package gpu

import (
	"errors"
	"testing"

	"github.com/ctrutls/ctrutls/gpu/driver"
)

func TestSensors(t *testing.T) {
	sim, cfg := simulated(t)
	e := open(t, cfg)
	if st := e.Stats()[0]; st.MemoryUsed == nil || *st.MemoryUsed == 0 || st.Temperature != nil || st.Utilization != nil || st.Power != nil {
		t.Errorf("a device without sensors: %+v", st)
	}
	sim.SetSensors(0, 50, 70, 1500)
	if st := e.Stats()[0]; st.Temperature == nil || *st.Temperature != 70 || *st.Utilization != 0.5 || *st.Power != 1.5 {
		t.Errorf("%+v", st)
	}
}

// A stuckMonitor does not return from Read.
type stuckMonitor struct {
	monitor
	release, read chan struct{}
}

func (m *stuckMonitor) Read(string) (driver.Reading, error) {
	<-m.release
	defer close(m.read)
	return driver.Reading{}, nil
}

// Where the sensors do not answer, Stats has all the rest, and asks them but once; and Close comes back.
func TestSensorsHang(t *testing.T) {
	was := sensorTime
	sensorTime = soon
	defer func() { sensorTime = was }()
	_, cfg := simulated(t)
	e, err := Open(cfg)
	check(t, err)
	m := &stuckMonitor{monitor: e.monitor, release: make(chan struct{}), read: make(chan struct{})}
	e.monitor = m
	for range 2 { // a second Read would close m.read again
		if st := e.Stats()[0]; st.State != StateOpen || st.MemoryUsed != nil {
			t.Errorf("%+v", st)
		}
	}
	if err := e.Close(); !errors.Is(err, errSensors) {
		t.Errorf("%v, want that NVML hangs", err)
	}
	close(m.release)
	<-m.read
	check(t, m.monitor.Close())
}
