//go:build (sim || gputest) && !race

// The race detector's pools drop objects at random, so allocations are counted without it.
package driver_test

import (
	"testing"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels/sim/testkernels"
)

// What a batch does, over and over, must not allocate.
func TestNoAllocations(t *testing.T) {
	h := testkernels.New(t)
	f := h.Function("add")
	pinned, err := h.API.HostAlloc(256)
	h.Check(err)
	a, b := h.Alloc(256), h.Alloc(256)
	event, err := h.API.EventCreate(driver.EventBlocking | driver.EventNoTiming)
	h.Check(err)
	p := new(driver.Params)
	shape := driver.Shape{Grid: driver.Dim{X: 1}, Block: driver.Dim{X: 64}}
	batch := func() {
		h.Check(h.API.CopyToDevice(a, pinned, h.Stream))
		h.Check(h.API.Launch(f, shape, p.Reset().Ptr(a).Ptr(a).Ptr(b).Int32(64), h.Stream))
		h.Check(h.API.CopyToHost(pinned, b, h.Stream))
		h.Check(h.API.MemsetAsync(a, 0, 256, h.Stream))
		h.Check(h.API.EventRecord(event, h.Stream))
		h.Check(h.API.StreamWaitEvent(h.Stream, event))
		if _, err := h.API.EventQuery(event); err != nil {
			h.Check(err)
		}
		if _, err := h.API.StreamQuery(h.Stream); err != nil {
			h.Check(err)
		}
		h.Check(h.API.EventSynchronize(event))
		h.Check(h.API.StreamSynchronize(h.Stream))
	}
	if n := testing.AllocsPerRun(100, batch); n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
	h.Check(h.API.EventDestroy(event))
	h.Check(h.API.HostFree(pinned))
}
