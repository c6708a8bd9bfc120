//go:build !nogpu

package service

import (
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/gpu/driver"
)

// TestGPUWarnings: check says that a GPU which is asked for is not there, and is silent
// where none is asked for by name.
func TestGPUWarnings(t *testing.T) {
	const absent = "/no/such/libcuda.so.1"
	t.Setenv(driver.LibraryEnv, absent)
	for _, test := range []struct {
		engine  config.Engine
		library string
		devices []int
		want    string
	}{
		{config.EngineCPU, absent, nil, ""},
		{config.EngineAuto, "", nil, ""},
		{config.EngineAuto, absent, nil, "provider.engine is auto, and on this machine the CPU would do all: "},
		{config.EngineAuto, "", []int{0}, "provider.engine is auto, and on this machine the CPU would do all: "},
		{config.EngineGPU, "", nil, "provider.engine is gpu, and on this machine tlsproxy run would not start: "},
	} {
		p := plan(t, func(c *config.Config) {
			c.Provider.Engine, c.Provider.GPU.Library, c.Provider.GPU.Devices = test.engine, test.library, test.devices
		})
		got := p.GPUWarnings()
		if test.want == "" {
			if len(got) > 0 {
				t.Errorf("%+v: %q", test, got)
			}
		} else if len(got) != 1 || !strings.HasPrefix(got[0], test.want) || !strings.Contains(got[0], absent) {
			t.Errorf("%+v: %q", test, got)
		}
	}
}
