//go:build sim && !nogpu

package provider

import (
	"log/slog"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

const onSimulator = true

// cardConfig returns a configuration for the simulated card.
func cardConfig(t testing.TB) Config {
	t.Helper()
	_, path, err := simctl.Fresh(simctl.Library())
	if err != nil {
		t.Fatal(err)
	}
	return Config{KeyPoolSize: -1, Engine: EngineGPU, Logger: slog.New(slog.DiscardHandler), GPU: GPU{Library: path, Schemes: sets[:1],
		MaxWait: time.Hour, Hang: time.Hour, Backoff: time.Millisecond}}
}

// trap makes the next kernel fail, and leaves the device as a card is then.
func trap(t *testing.T) {
	t.Helper()
	path, err := simctl.Library()
	if err != nil {
		t.Fatal(err)
	}
	sim, err := simctl.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	sim.SetFaultsPermanent(0, true)
	sim.FaultLaunch(0, 0, 1, int(driver.ErrLaunchFailed))
}
