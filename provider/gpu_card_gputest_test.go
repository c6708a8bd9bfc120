//go:build gputest && !sim && !nogpu

package provider

import (
	"log/slog"
	"runtime"
	"testing"

	"github.com/ctrutls/ctrutls/gpu/driver"
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
	runtime.LockOSThread() // and never unlocked: the context stays with the thread
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	api, err := driver.Open("")
	check(err)
	ctx, err := api.PrimaryCtxRetain(0)
	check(err)
	check(api.CtxSetCurrent(ctx))
	stream, err := api.StreamCreate(0)
	check(err)
	m, err := api.ModuleLoad(testkernels.PTX)
	check(err)
	f, err := api.ModuleFunction(m, "broken_trap")
	check(err)
	p, err := api.MemAlloc(256)
	check(err)
	check(api.Launch(f, driver.Shape{Block: driver.Dim{X: 64}}, new(driver.Params).Ptr(p), stream))
}
