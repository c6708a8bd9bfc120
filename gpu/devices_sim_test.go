//go:build sim

package gpu

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/internal/average"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

// rig is an engine on several simulated devices with rows to send it.
type rig struct {
	t           *testing.T
	sim         *simctl.Sim
	engine      *Engine
	kind        *Kind
	input, want []byte
	tickets     []Ticket
}

func newRig(t *testing.T, devices int, change func(*Config)) *rig {
	t.Helper()
	sim, cfg := simulated(t)
	sim.SetDeviceCount(devices)
	if change != nil {
		change(&cfg)
	}
	r := &rig{t: t, sim: sim, engine: open(t, cfg)}
	r.kind = kind(t, r.engine, 653, Encaps)
	r.input, r.want = newGenerator().row(t, 653, Encaps)
	return r
}

// hold closes or opens the gates of all devices.
func (r *rig) hold(on bool) {
	for d := range r.engine.devices {
		r.sim.Hold(d, on)
	}
}

// send reserves n rows one by one and says on which devices they are.
func (r *rig) send(n int) (on []int) {
	r.t.Helper()
	for range n {
		r.tickets = append(r.tickets, reserve(r.t, r.engine, r.kind, r.input))
		on = append(on, r.tickets[len(r.tickets)-1].Device())
	}
	return on
}

// finish waits for all rows that were sent.
func (r *rig) finish() {
	r.t.Helper()
	for _, ticket := range r.tickets {
		finish(r.t, ticket, r.want)
	}
	r.tickets = nil
}

// occupy has every device run a batch of one row, which the closed gates hold, so that nothing takes the batches that follow.
func (r *rig) occupy() {
	r.t.Helper()
	for d := range r.engine.devices {
		if on := r.send(1); on[0] != d {
			r.t.Fatalf("row %d went to device %d, want the one that has nothing to do", d, on[0])
		}
		r.awaitWorking(d)
	}
}

func (r *rig) awaitWorking(device int) {
	r.t.Helper()
	w := r.engine.devices[device].session.Load().workers[0]
	eventually(r.t, func() bool { return w.current.Load() != nil }, func() string { return fmt.Sprintf("device %d runs nothing", device) })
}

// counts says how often each device is named.
func counts(on []int, devices int) []int {
	n := make([]int, devices)
	for _, d := range on {
		n[d]++
	}
	return n
}

func eachDeviceCount(t *testing.T, f func(t *testing.T, devices int)) {
	for devices := 1; devices <= simctl.MaxDevices; devices++ {
		t.Run(fmt.Sprint(devices), func(t *testing.T) { f(t, devices) })
	}
}

// Equal devices get equally many rows.
func TestEvenSpread(t *testing.T) {
	eachDeviceCount(t, func(t *testing.T, devices int) {
		r := newRig(t, devices, nil)
		r.hold(true)
		r.occupy()
		const each = 5
		if got := counts(r.send(each*devices), devices); !slices.Equal(got, slices.Repeat([]int{each}, devices)) {
			t.Errorf("of %d rows the devices got %v", each*devices, got)
		}
		r.hold(false)
		r.finish()
		for _, st := range r.engine.Stats() {
			if st.Rows != 1+each || st.Batches != 2 || st.State != StateOpen {
				t.Errorf("device %d: %+v", st.Number, st)
			}
		}
	})
}

// Signatures are spread as evenly, by whatever key, although the keys share queues.
func TestSigningSpread(t *testing.T) {
	const devices, each = 2, 4
	r := newRig(t, devices, func(cfg *Config) { cfg.Sign = true })
	g := newGenerator()
	for i := range signingQueues + 1 { // a key in each queue, and a second one in one of them
		r.kind, r.input = g.key(t).kind(t, r.engine), g.signature()
		for _, d := range r.engine.devices {
			d.latency = make([]average.Line, len(r.engine.kinds)) // equal again, whatever the last key's rows took
		}
		r.hold(true)
		r.occupy()
		if got := counts(r.send(each*devices), devices); !slices.Equal(got, []int{each, each}) {
			t.Errorf("key %d: of %d rows the devices got %v", i, each*devices, got)
		}
		r.hold(false)
		for _, ticket := range r.tickets {
			check(t, ticket.Wait(t.Context()))
			ticket.Release()
		}
		r.tickets = nil
		r.awaitOpen(0)
	}
}

// awaitOpen waits until so many batches of every device have not ended.
func (r *rig) awaitOpen(n int32) {
	r.t.Helper()
	for _, d := range r.engine.devices {
		s := d.session.Load()
		eventually(r.t, func() bool { return s.open.Load() == n }, func() string {
			return fmt.Sprintf("device %d has %d batches, want %d", d.number, s.open.Load(), n)
		})
	}
}

// A row that cannot join the open batch of its queue, which is another key's, comes after it.
func TestExpectedAfterOtherKey(t *testing.T) {
	r := newRig(t, 2, func(cfg *Config) { cfg.Sign = true })
	g := newGenerator()
	kinds := make([]*Kind, signingQueues+1)
	for i := range kinds {
		kinds[i] = g.key(t).kind(t, r.engine)
	}
	mine, other := kinds[0], kinds[signingQueues]
	if mine.queue != other.queue {
		t.Fatal("the keys do not share a queue")
	}
	d := r.engine.devices[0]
	s := d.session.Load()
	r.hold(true)
	r.occupy() // so that no worker takes the batch that follows
	d.latency[mine.index].Add(1, float64(time.Millisecond))
	ticket, err := s.reserve(other, 1)
	check(t, err)
	if own, behind := d.expected(s, other), d.expected(s, mine); behind <= own {
		t.Errorf("expected after %v in the open batch and %v behind it", own, behind)
	}
	ticket.Release()
	r.hold(false)
	r.finish()
}

// A device that takes three times as long gets a third of the batches.
func TestSlowDeviceGetsLess(t *testing.T) {
	const devices, slow = 3, 1
	r := newRig(t, devices, func(cfg *Config) { cfg.Capacity, cfg.Buffers = 1, MaxBuffers })
	for d := range r.engine.devices {
		took := time.Millisecond
		if d == slow {
			took *= 3
		}
		r.engine.devices[d].latency[r.kind.index].Add(1, float64(took))
	}
	r.hold(true)
	if got := counts(r.send(28), devices); !slices.Equal(got, []int{12, 4, 12}) {
		t.Errorf("the devices got %v batches", got)
	}
	r.hold(false)
	r.finish()
}

// A device whose batch does not come back gets no more while the others have nothing to do, whatever was measured before.
func TestHeldDevice(t *testing.T) {
	const devices, held = 4, 2
	r := newRig(t, devices, nil)
	for _, d := range r.engine.devices {
		d.latency[r.kind.index].Add(1, float64(time.Hour)) // so that what is measured below makes no device look slow
	}
	r.sim.Hold(held, true)
	onHeld := counts(r.send(devices), devices)[held]
	kept := slices.DeleteFunc(slices.Clone(r.tickets), func(ticket Ticket) bool { return ticket.Device() != held })
	r.tickets = slices.DeleteFunc(r.tickets, func(ticket Ticket) bool { return ticket.Device() == held })
	r.finish()
	if onHeld != 1 {
		t.Fatalf("%d of the first %d rows went to the held device, want 1", onHeld, devices)
	}
	for range 30 { // one at a time: there is always a device that has nothing to do
		if on := r.send(1); on[0] == held {
			t.Fatal("a row went to the device that has one already")
		}
		r.finish()
	}
	r.sim.Hold(held, false)
	r.tickets = kept
	r.finish()
	if st := r.engine.Stats()[held]; st.Rows != 1 {
		t.Errorf("%+v", st)
	}
}

// What a dead device has is given back, what comes meanwhile the others serve, and when it is back it serves again.
func TestDeadDeviceComesBack(t *testing.T) {
	for _, devices := range []int{2, 5, simctl.MaxDevices} {
		t.Run(fmt.Sprint(devices), func(t *testing.T) {
			const dead = 1
			r := newRig(t, devices, nil)
			r.hold(true)
			r.occupy()
			r.sim.Lose(dead, int(driver.ErrDeviceUnavailable))
			for i := range r.tickets {
				if ticket := &r.tickets[i]; ticket.Device() == dead {
					if err := ticket.Wait(t.Context()); err != ErrFault {
						t.Errorf("a row of the dead device: %v, want ErrFault", err)
					}
					ticket.Release()
				}
			}
			r.tickets = slices.DeleteFunc(r.tickets, func(ticket Ticket) bool { return ticket.Device() == dead })
			awaitState(t, r.engine, dead, StateReopening)
			want := slices.Repeat([]int{3}, devices)
			want[dead] = 0
			if got := counts(r.send(3*(devices-1)), devices); !slices.Equal(got, want) {
				t.Errorf("without device %d the devices got %v", dead, got)
			}
			r.hold(false)
			r.finish()

			r.sim.ClearFaults(dead)
			if st := awaitState(t, r.engine, dead, StateOpen); st.Reopened != 1 || st.Rows != 0 {
				t.Errorf("%+v", st)
			}
			r.hold(true)
			if got := counts(r.send(devices), devices); got[dead] == 0 {
				t.Errorf("with device %d back the devices got %v", dead, got)
			}
			r.hold(false)
			r.finish()
		})
	}
}

// run runs a job of so many rows, compares what was computed, and returns how many rows were not. change sets the job's functions.
func (r *rig) run(rows int, change func(j *Job)) (pending int) {
	r.t.Helper()
	j, want := newJob(r.t, r.engine, Encaps, rows)
	change(j)
	pending = runJob(r.t, r.engine, j)
	if n := checkJob(r.t, j, want); n != pending {
		r.t.Errorf("%d rows are pending, of which Run says %d", n, pending)
	}
	return pending
}

// whenTaken has f called when n chunks of a job are taken.
func whenTaken(n int, f func()) func(j *Job) {
	var taken atomic.Int64
	return func(j *Job) {
		j.Before = func(int, int) {
			if taken.Add(1) == int64(n) {
				f()
			}
		}
	}
}

// oneRowChunks is a configuration for jobs whose chunks are of one row.
func oneRowChunks(cfg *Config) { cfg.Chunk = 1 }

// A job's chunks go to all devices alike: each has as many under way as the others.
func TestJobSpread(t *testing.T) {
	claimAll(t)
	eachDeviceCount(t, func(t *testing.T, devices int) {
		r := newRig(t, devices, oneRowChunks)
		r.spread()
		for _, st := range r.engine.Stats() {
			if st.JobRows != laneRings {
				t.Errorf("device %d has computed %d chunks, want %d", st.Number, st.JobRows, laneRings)
			}
		}
	})
}

// spread runs a job with as many chunks as all devices have rings. With the gates closed no chunk ends, so each device takes as many as it has
// rings; then the gates open.
func (r *rig) spread() {
	r.t.Helper()
	chunks := laneRings * len(r.engine.devices)
	r.hold(true)
	if n := r.run(chunks, whenTaken(chunks, func() { r.hold(false) })); n != 0 {
		r.t.Errorf("%d rows are pending", n)
	}
}

// A device that does not get on leaves the rest of a job to the others.
func TestJobSlowDevice(t *testing.T) {
	claimAll(t)
	const devices, held, chunks = 3, 1, 60
	r := newRig(t, devices, oneRowChunks)
	r.sim.Hold(held, true)
	pending := r.run(chunks, func(j *Job) {
		var others atomic.Int64
		j.After = func(_, _, device int) {
			if device != held && others.Add(1) == chunks-laneRings { // all that the held device cannot have
				r.sim.Hold(held, false)
			}
		}
	})
	if st := r.engine.Stats()[held]; pending != 0 || st.JobRows > laneRings {
		t.Errorf("%d rows are pending; the held device has computed %d chunks and has room for %d", pending, st.JobRows, laneRings)
	}
}

// A device dies with chunks in its hands: the others do them too, and nothing is left for the CPU. When it is back it takes part again.
func TestJobDeadDevice(t *testing.T) {
	claimAll(t)
	const devices, dead, chunks = 4, 2, 40
	r := newRig(t, devices, oneRowChunks)
	r.sim.Hold(dead, true)
	pending := r.run(chunks, func(j *Job) {
		var others atomic.Int64
		j.After = func(int, int, int) {
			if others.Add(1) == chunks-laneRings {
				r.sim.Lose(dead, int(driver.ErrDeviceUnavailable))
			}
		}
	})
	if st := r.engine.Stats()[dead]; pending != 0 || st.JobRows != 0 || st.Faults == 0 {
		t.Errorf("%d rows are pending; %+v", pending, st)
	}
	r.sim.Hold(dead, false)
	r.sim.ClearFaults(dead)
	awaitState(t, r.engine, dead, StateOpen)
	r.spread()
	if st := r.engine.Stats()[dead]; st.JobRows != laneRings {
		t.Errorf("%+v", st)
	}
}

// All devices die under a job: its rows are left to whoever has no device.
func TestJobAllDead(t *testing.T) {
	claimAll(t)
	const devices, rows = 3, 40
	r := newRig(t, devices, func(cfg *Config) { cfg.Chunk, cfg.Backoff = 1, never })
	r.hold(true)
	pending := r.run(rows, whenTaken(laneRings*devices, func() {
		for d := range devices {
			r.sim.Lose(d, int(driver.ErrDeviceUnavailable))
		}
	}))
	if pending != rows {
		t.Errorf("%d of %d rows are pending", pending, rows)
	}
	r.hold(false)
	for d := range devices {
		awaitState(t, r.engine, d, StateReopening)
		r.sim.ClearFaults(d) // so that memory can be freed
	}
}
