package service

import (
	"errors"
	"fmt"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

// errNumber is about a device that provider.gpu.devices names: with it neither engine starts.
var errNumber = errors.New("provider.gpu.devices")

// GPUWarnings tell of GPUs that the configuration asks for and this machine has not. It
// loads the driver's library to find out, so it is for a process that looks and ends.
func (p *Plan) GPUWarnings() []string {
	c := p.Config.Provider
	named := c.GPU.Library != "" || len(c.GPU.Devices) > 0
	if c.Engine == config.EngineCPU || c.Engine == config.EngineAuto && !named {
		return nil // auto alone is for machines with a GPU and without
	}
	err := lacksGPUs(c.GPU.Library, c.GPU.Devices)
	switch {
	case err == nil:
		return nil
	case c.Engine == config.EngineAuto && !errors.Is(err, errNumber):
		return []string{fmt.Sprintf("provider.engine is auto, and on this machine the CPU would do all: %v", err)}
	}
	return []string{fmt.Sprintf("provider.engine is %s, and on this machine tlsproxy run would not start: %v", c.Engine, err)}
}
