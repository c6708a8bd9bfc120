//go:build nogpu

package provider

import (
	"fmt"
	"log/slog"
)

// openGPU reports that this build has no support for GPUs.
func openGPU(GPU, *slog.Logger, *cpuEngine) (offload, error) {
	return nil, fmt.Errorf("%w: this program was built without support for them (tag nogpu)", errNoGPU)
}
