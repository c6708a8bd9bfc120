//go:build sim || gputest

package driver_test

import (
	"runtime"
	"testing"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels/sim/testkernels"
)

// The cost of one call each, and of the ways to learn that a stream is done. Only a card's figures mean anything.
func BenchmarkCalls(b *testing.B) {
	h := testkernels.New(b)
	f := h.Function("no_parameters")
	event, err := h.API.EventCreate(driver.EventNoTiming)
	h.Check(err)
	blocking, err := h.API.EventCreate(driver.EventNoTiming | driver.EventBlocking)
	h.Check(err)
	pinned, err := h.API.HostAlloc(4096)
	h.Check(err)
	device := h.Alloc(4096)
	shape := driver.Shape{Grid: driver.Dim{X: 1}, Block: driver.Dim{X: 32}}
	launch := func() { h.Check(h.API.Launch(f, shape, nil, h.Stream)) }

	for _, c := range []struct {
		name string
		call func()
	}{
		{"EventQuery", func() { _, _ = h.API.EventQuery(event) }},
		{"EventRecord", func() { h.Check(h.API.EventRecord(event, h.Stream)) }},
		{"Launch", launch},
		{"CopyToDevice", func() { h.Check(h.API.CopyToDevice(device, pinned, h.Stream)) }},
		{"CopyToHost", func() { h.Check(h.API.CopyToHost(pinned, device, h.Stream)) }},
		{"LaunchThenStreamSynchronize", func() { launch(); h.Check(h.API.StreamSynchronize(h.Stream)) }},
		{"LaunchThenSpinningEvent", func() {
			launch()
			h.Check(h.API.EventRecord(event, h.Stream))
			h.Check(h.API.EventSynchronize(event))
		}},
		{"LaunchThenBlockingEvent", func() {
			launch()
			h.Check(h.API.EventRecord(blocking, h.Stream))
			h.Check(h.API.EventSynchronize(blocking))
		}},
		{"LaunchThenPolledEvent", func() {
			launch()
			h.Check(h.API.EventRecord(event, h.Stream))
			for done := false; !done; runtime.Gosched() {
				done, err = h.API.EventQuery(event)
				h.Check(err)
			}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c.call()
				if i%512 == 511 { // a stream takes no more than about a thousand launches at a time
					b.StopTimer()
					h.Check(h.API.StreamSynchronize(h.Stream))
					b.StartTimer()
				}
			}
			h.Check(h.API.StreamSynchronize(h.Stream))
		})
	}
	h.Check(h.API.HostFree(pinned))
}
