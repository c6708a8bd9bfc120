//go:build sim || gputest

package driver_test

import (
	"runtime"
	"testing"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels/sim/testkernels"
)

// A caller makes the calls that are measured.
type caller struct {
	*testkernels.Harness
	plain, blocking driver.Event
	pinned          []byte
	device          driver.DevicePtr
	empty, add      driver.Function
	params          driver.Params
}

const copied = 4096 // bytes

func newCaller(b *testing.B) *caller {
	c := &caller{Harness: testkernels.New(b)}
	var err error
	c.plain, err = c.API.EventCreate(driver.EventNoTiming)
	c.Check(err)
	c.blocking, err = c.API.EventCreate(driver.EventNoTiming | driver.EventBlocking)
	c.Check(err)
	c.pinned, err = c.API.HostAlloc(copied)
	c.Check(err)
	c.device = c.Alloc(copied)
	c.empty, c.add = c.Function("no_parameters"), c.Function("add")
	return c
}

func (c *caller) launch() {
	c.Check(c.API.Launch(c.empty, driver.Shape{Block: driver.Dim{X: 32}}, nil, c.Stream))
}

func (c *caller) launchWithParameters() {
	p := c.params.Reset().Ptr(c.device).Ptr(c.device).Ptr(c.device).Int32(0)
	c.Check(c.API.Launch(c.add, driver.Shape{Block: driver.Dim{X: 32}}, p, c.Stream))
}

func (c *caller) record(e driver.Event) { c.Check(c.API.EventRecord(e, c.Stream)) }

func (c *caller) poll() {
	for done := false; !done; runtime.Gosched() {
		var err error
		done, err = c.API.EventQuery(c.plain)
		c.Check(err)
	}
}

// The cost of one call each, and of the ways to learn that a stream is done, through the implementation that the build has. Only a card's
// figures mean anything.
func BenchmarkCalls(b *testing.B) {
	b.Logf("driver.Open uses %s", driver.Implementation())
	for _, m := range []struct {
		name string
		call func(c *caller)
	}{
		{"EventQuery", func(c *caller) { _, _ = c.API.EventQuery(c.plain) }},
		{"EventRecord", func(c *caller) { c.record(c.plain) }},
		{"Launch", (*caller).launch},
		{"LaunchWithParameters", (*caller).launchWithParameters},
		{"Memset", func(c *caller) { c.Check(c.API.MemsetAsync(c.device, 0, copied, c.Stream)) }},
		{"CopyToDevice", func(c *caller) { c.Check(c.API.CopyToDevice(c.device, c.pinned, c.Stream)) }},
		{"CopyToHost", func(c *caller) { c.Check(c.API.CopyToHost(c.pinned, c.device, c.Stream)) }},
		{"LaunchThenStreamSynchronize", func(c *caller) { c.launch(); c.Check(c.API.StreamSynchronize(c.Stream)) }},
		{"LaunchThenSpinningEvent", func(c *caller) { c.launch(); c.record(c.plain); c.Check(c.API.EventSynchronize(c.plain)) }},
		{"LaunchThenBlockingEvent", func(c *caller) { c.launch(); c.record(c.blocking); c.Check(c.API.EventSynchronize(c.blocking)) }},
		{"LaunchThenPolledEvent", func(c *caller) { c.launch(); c.record(c.plain); c.poll() }},
	} {
		b.Run(m.name, func(b *testing.B) {
			c := newCaller(b) // here: this goroutine has the context
			c.Check(c.API.MemsetAsync(c.device, 0, copied, c.Stream))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				m.call(c)
				if i%512 == 511 { // a stream takes no more than about a thousand launches at a time
					b.StopTimer()
					c.Check(c.API.StreamSynchronize(c.Stream))
					b.StartTimer()
				}
			}
			c.Check(c.API.StreamSynchronize(c.Stream))
			c.Check(c.API.EventDestroy(c.plain))
			c.Check(c.API.EventDestroy(c.blocking))
			c.Check(c.API.HostFree(c.pinned))
		})
	}
}
