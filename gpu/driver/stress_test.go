//go:build sim

package driver_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels/sim/testkernels"
)

// Many threads, each with its stream and its pinned memory, as workers have them, on two devices: no result gets mixed up, and
// nothing is left behind.
func TestManyStreams(t *testing.T) {
	api, sim := testkernels.Open(t)
	sim.SetDeviceCount(2)
	sim.SetSeed(1)
	const workers, batches, n = 12, 20, 96
	errs := make(chan error)
	for w := range workers {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			errs <- work(api, w%2, uint32(w), batches, n)
		}()
	}
	for range workers {
		if err := <-errs; err != nil {
			t.Error(err, sim.LastFault())
		}
	}
	for device := range 2 {
		if st := sim.Stats(device); st.Leaks() || st.Launches != workers/2*batches || st.PageableCopies != 0 {
			t.Errorf("device %d: %+v", device, st)
		}
	}
}

// work adds rows of numbers on a device, copy, launch and copy back in one stream, and checks each batch.
func work(api driver.API, device int, id uint32, batches, n int) (err error) {
	ctx, err := api.PrimaryCtxRetain(device)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, api.CtxSetCurrent(0), api.PrimaryCtxRelease(device)) }()
	if err := api.CtxSetCurrent(ctx); err != nil {
		return err
	}
	module, err := api.ModuleLoad(testkernels.PTX)
	if err != nil {
		return err
	}
	add, err := api.ModuleFunction(module, "add")
	if err != nil {
		return err
	}
	stream, err := api.StreamCreate(0)
	if err != nil {
		return err
	}
	pinned, err := api.HostAlloc(4 * n)
	if err != nil {
		return err
	}
	in, err := api.MemAlloc(4 * n)
	if err != nil {
		return err
	}
	out, err := api.MemAlloc(4 * n)
	if err != nil {
		return err
	}
	var params driver.Params
	for b := range batches {
		words := make([]uint32, n)
		for i := range words {
			words[i] = id<<24 | uint32(b)<<12 | uint32(i)
		}
		copy(pinned, testkernels.Bytes(words))
		err := errors.Join(
			api.CopyToDevice(in, pinned, stream),
			api.Launch(add, driver.Shape{Grid: driver.Dim{X: 3}, Block: driver.Dim{X: 32}}, params.Reset().Ptr(in).Ptr(in).Ptr(out).Int32(int32(n)), stream),
			api.CopyToHost(pinned, out, stream),
			api.StreamSynchronize(stream))
		if err != nil {
			return err
		}
		for i, v := range testkernels.Words(pinned) {
			if v != 2*words[i] {
				return fmt.Errorf("worker %d, batch %d, word %d: %#x, want %#x", id, b, i, v, 2*words[i])
			}
		}
	}
	return errors.Join(api.MemFree(in), api.MemFree(out), api.HostFree(pinned), api.StreamDestroy(stream), api.ModuleUnload(module))
}
