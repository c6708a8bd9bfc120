//go:build gputest && !sim && !nogpu

package provider

import (
	"log/slog"
	"testing"

	"github.com/ctrutls/ctrutls/kernels/sim/testkernels"
)

const onSimulator = false

// cardConfig returns the configuration for this machine's first card.
func cardConfig(testing.TB) Config {
	return Config{KeyPoolSize: -1, Engine: EngineGPU, Logger: slog.New(slog.DiscardHandler), GPU: GPU{Devices: []int{0}}}
}

// trap has a kernel trap in the device's context.
func trap(t *testing.T) {
	t.Helper()
	if err := testkernels.Trap(0); err != nil {
		t.Fatal(err)
	}
}
