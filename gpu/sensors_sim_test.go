//go:build sim

package gpu

import "testing"

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
