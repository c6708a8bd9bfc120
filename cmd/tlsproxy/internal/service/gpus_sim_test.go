//go:build sim && !nogpu

package service

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

// TestGPUWarningsOnSimulatedGPU: a GPU that is there is not warned of, and where one
// that is not there is named, neither engine starts, as the warning says.
func TestGPUWarningsOnSimulatedGPU(t *testing.T) {
	library, err := simctl.Library()
	if err != nil {
		t.Fatal(err)
	}
	for _, engine := range []config.Engine{config.EngineAuto, config.EngineGPU} {
		with := func(devices ...int) *Plan {
			return plan(t, func(c *config.Config) {
				c.Provider.Engine, c.Provider.GPU.Library, c.Provider.GPU.Devices = engine, library, devices
			})
		}
		if got := with(0).GPUWarnings(); len(got) > 0 {
			t.Errorf("%s: %q", engine, got)
		}
		wrong := with(0, 60)
		want := []string{"provider.engine is " + string(engine) + ", and on this machine tlsproxy run would not start: provider.gpu.devices names GPU 60, of 1 that count from 0"}
		if got := wrong.GPUWarnings(); !slices.Equal(got, want) {
			t.Errorf("%s: %q", engine, got)
		}
		if _, err := wrong.Start(slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: it starts", engine)
		}
	}
}
