//go:build sim

package driver_test

import (
	"errors"
	"testing"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

func TestMonitor(t *testing.T) {
	sim, path, err := simctl.Fresh(simctl.TestLibrary())
	if err != nil {
		t.Fatal(err)
	}
	sim.SetDeviceCount(2)
	m, err := driver.OpenMonitor(path)
	if err != nil {
		t.Fatal(err)
	}
	api, err := driver.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	sim.SetSensors(1, 37, 61, 412_500)
	for number, want := range []driver.Reading{
		{Has: driver.HasMemory},
		{Has: driver.HasMemory | driver.HasUtilization | driver.HasTemperature | driver.HasPower, Utilization: 0.37, Temperature: 61, Power: 412.5},
	} {
		info, err := api.DeviceInfo(number)
		if err != nil {
			t.Fatal(err)
		}
		want.MemoryTotal = info.Memory
		got, err := m.Read(info.PCIBusID)
		if err != nil || got != want {
			t.Errorf("device %d: %+v, %v, want %+v", number, got, err, want)
		}
	}
	var failed *driver.MonitorError
	if _, err := m.Read("0000:99:00.0"); !errors.As(err, &failed) || failed.Call != "nvmlDeviceGetHandleByPciBusId_v2" {
		t.Errorf("a device that is not there: %v", err)
	}
	sim.Lose(1, int(driver.ErrDeviceUnavailable))
	if _, err := m.Read("0000:11:00.0"); !errors.As(err, &failed) {
		t.Errorf("a device that is lost: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := driver.OpenMonitor("/nonexistent/libnvidia-ml.so.1"); !errors.Is(err, driver.ErrNoMonitor) {
		t.Errorf("without the library: %v", err)
	}
}
