package testkernels

import (
	"runtime"

	"github.com/ctrutls/ctrutls/gpu/driver"
)

// Trap launches a kernel that traps in a device's primary context, which spoils it for everybody in the process. It returns once the kernel is
// on its way.
func Trap(device int) error {
	launched := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends, and with it the context's hold on it
		launched <- launchTrap(device)
	}()
	return <-launched
}

func launchTrap(device int) error {
	api, err := driver.Open("")
	if err != nil {
		return err
	}
	ctx, err := api.PrimaryCtxRetain(device)
	if err != nil {
		return err
	}
	if err := api.CtxSetCurrent(ctx); err != nil {
		return err
	}
	stream, err := api.StreamCreate(0)
	if err != nil {
		return err
	}
	m, err := api.ModuleLoad(PTX)
	if err != nil {
		return err
	}
	f, err := api.ModuleFunction(m, "broken_trap")
	if err != nil {
		return err
	}
	memory, err := api.MemAlloc(256)
	if err != nil {
		return err
	}
	return api.Launch(f, driver.Shape{Block: driver.Dim{X: 64}}, new(driver.Params).Ptr(memory), stream)
}
