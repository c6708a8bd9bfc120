//go:build sim

package gpu

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

// pin returns pinned memory for the length of a test.
func pin(t *testing.T, e *Engine, n int) []byte {
	t.Helper()
	p, err := e.AllocPinned(n)
	check(t, err)
	t.Cleanup(func() { check(t, p.Free()) })
	return p.Bytes
}

// newJob returns a job of random rows, and the outputs it must have.
func newJob(t *testing.T, e *Engine, op Operation, rows int) (j *Job, want []byte) {
	t.Helper()
	k := kind(t, e, 653, op)
	j = &Job{Kind: k, Rows: rows, Input: pin(t, e, rows*k.InputSize()), Output: pin(t, e, rows*k.OutputSize()), Status: pin(t, e, 4*rows)}
	g := newGenerator()
	for i := range rows {
		input, output := g.row(t, 653, op)
		copy(row(j.Input, k.InputSize(), i), input)
		want = append(want, output...)
	}
	return j, want
}

// runJob runs a job, of which it returns how many rows are pending.
func runJob(t *testing.T, e *Engine, j *Job) (pending int) {
	t.Helper()
	pending, err := e.Run(t.Context(), j)
	check(t, err)
	return pending
}

// checkJob compares a job's outputs where they were computed, and returns in how many rows they were not.
func checkJob(t *testing.T, j *Job, want []byte) (pending int) {
	t.Helper()
	for i := range j.Rows {
		size := j.Kind.OutputSize()
		switch status := binary.LittleEndian.Uint32(j.Status[4*i:]); {
		case status == StatusPending:
			pending++
			if !bytes.Equal(row(j.Output, size, i), make([]byte, size)) {
				t.Errorf("row %d is not computed and has an output", i)
			}
		case status != 0 || !bytes.Equal(row(j.Output, size, i), row(want, size, i)):
			t.Errorf("row %d: status %d, or a wrong output", i, status)
		}
	}
	return pending
}

// jobs returns a configuration with small chunks, so that rings are used again and the last chunk is shorter.
func jobs(t *testing.T, cfg Config) (*Engine, Config) {
	cfg.Chunk = 4
	return open(t, cfg), cfg
}

// claimAll makes chunks of the configured size, however few the rows.
func claimAll(t *testing.T) {
	t.Helper()
	old := leastChunk
	leastChunk = 1
	t.Cleanup(func() { leastChunk = old })
}

// eachWay runs a test with separate streams for a Job's steps, and with one for each ring.
func eachWay(t *testing.T, test func(t *testing.T, sim *simctl.Sim, cfg Config)) {
	t.Helper()
	for name, rings := range map[string]bool{"steps": false, "rings": true} {
		t.Run(name, func(t *testing.T) {
			sim, cfg := simulated(t)
			cfg.RingStreams = rings
			test(t, sim, cfg)
		})
	}
}

func TestJob(t *testing.T) { eachWay(t, testJob) }

func testJob(t *testing.T, _ *simctl.Sim, cfg Config) {
	claimAll(t)
	e, _ := jobs(t, cfg)
	for _, c := range []struct {
		op   Operation
		rows int
	}{{Encaps, 1}, {Encaps, 27}, {Decaps, 23}, {KeyGen, 6}} {
		j, want := newJob(t, e, c.op, c.rows)
		var mu sync.Mutex
		before, after := make([]int, c.rows), make([]int, c.rows)
		count := func(rows []int, first, n int) {
			mu.Lock()
			defer mu.Unlock()
			for i := first; i < first+n; i++ {
				rows[i]++
			}
		}
		j.Before = func(first, n int) { count(before, first, n) }
		j.After = func(first, n, device int) { count(after, first, n) }
		runJob(t, e, j)
		once := slices.Repeat([]int{1}, c.rows)
		if n := checkJob(t, j, want); n != 0 || !slices.Equal(before, once) || !slices.Equal(after, once) {
			t.Errorf("%v: %d of %d rows are pending; %v, %v", c.op, n, c.rows, before, after)
		}
	}
	if st := e.Stats()[0]; st.JobRows != 57 || st.Rows != 0 {
		t.Errorf("%+v", st)
	}
}

// Keys in a table, and an index that names one that is not there.
func TestTable(t *testing.T) { eachWay(t, testTable) }

func testTable(t *testing.T, _ *simctl.Sim, cfg Config) {
	claimAll(t)
	e, _ := jobs(t, cfg)
	s := scheme(653)
	g := newGenerator()
	const keys, rows = 3, 14
	var sks []byte
	var cts, want []byte
	index := pin(t, e, 4*rows)
	for range keys {
		_, sk := g.row(t, 653, KeyGen)
		sks = append(sks, sk...)
	}
	for i := range rows {
		n := (7 * i) % keys
		binary.LittleEndian.PutUint32(index[4*i:], uint32(n))
		ct, ss := make([]byte, s.CiphertextSize()), make([]byte, 32)
		check(t, s.EncapsulateBytes(ct, ss, s.PublicKeyOf(row(sks, s.PrivateKeySize(), n)), g.bytes(32)))
		cts, want = append(cts, ct...), append(want, ss...)
	}
	binary.LittleEndian.PutUint32(index[4*5:], keys)
	decaps := kind(t, e, 653, Decaps)
	table, err := e.NewTable(decaps, sks)
	check(t, err)
	j := &Job{Kind: decaps, Rows: rows, Input: pin(t, e, len(cts)), Output: pin(t, e, 32*rows), Status: pin(t, e, 4*rows), Table: table, Index: index}
	copy(j.Input, cts)
	for range 2 {
		runJob(t, e, j)
		if status := binary.LittleEndian.Uint32(j.Status[4*5:]); status != 1 {
			t.Errorf("status %d for a key that is not there", status)
		}
		binary.LittleEndian.PutUint32(j.Status[4*5:], 0)
		copy(row(j.Output, 32, 5), row(want, 32, 5))
		if n := checkJob(t, j, want); n != 0 {
			t.Errorf("%d rows are pending", n)
		}
	}
	check(t, table.Close())
	check(t, table.Close())

	// One public key for all.
	encaps := kind(t, e, 653, Encaps)
	pk := s.PublicKeyOf(row(sks, s.PrivateKeySize(), 1))
	table, err = e.NewTable(encaps, pk)
	check(t, err)
	defer table.Close()
	j = &Job{Kind: encaps, Rows: rows, Input: pin(t, e, 32*rows), Output: pin(t, e, rows*encaps.OutputSize()), Status: pin(t, e, 4*rows), Table: table}
	want = nil
	for i := range rows {
		seed, ct, ss := g.bytes(32), make([]byte, s.CiphertextSize()), make([]byte, 32)
		check(t, s.EncapsulateBytes(ct, ss, pk, seed))
		copy(row(j.Input, 32, i), seed)
		want = append(append(want, ct...), ss...)
	}
	runJob(t, e, j)
	if n := checkJob(t, j, want); n != 0 {
		t.Errorf("%d rows are pending", n)
	}
	if _, err := e.NewTable(encaps, append(pk, pk...)); err == nil {
		t.Error("two public keys in a table")
	}
	if _, err := e.NewTable(decaps, sks[1:]); err == nil {
		t.Error("a table of part of a key")
	}
}

// A lane whose session has failed makes nothing for a job that was waiting for it.
func TestJobAfterFault(t *testing.T) {
	_, cfg := simulated(t)
	e := open(t, cfg)
	j, _ := newJob(t, e, Encaps, 3)
	r := newRun(t.Context(), j, j.Rows)
	r.remains()
	s := e.devices[0].session.Load()
	if !s.enter() {
		t.Fatal("the session has ended")
	}
	s.fail(driver.ErrInvalidValue)
	s.lane.serve(r)
	if made := s.lane.streams(); len(made) > 0 || r.pend() != 3 {
		t.Errorf("%d streams were made", len(made))
	}
	s.busy.Done()
	awaitState(t, e, 0, StateOpen)
}

// Memory of one engine serves another, and after the first is closed.
func TestJobPinnedElsewhere(t *testing.T) {
	_, cfg := simulated(t)
	first, second := open(t, cfg), open(t, cfg)
	j, want := newJob(t, first, Encaps, 3)
	check(t, first.Close())
	j.Kind = kind(t, second, 653, Encaps)
	runJob(t, second, j)
	if n := checkJob(t, j, want); n != 0 {
		t.Errorf("%d rows are pending", n)
	}
}

// Several devices share a job, and take what one of them leaves.
func TestJobOnDevices(t *testing.T) { eachWay(t, testJobOnDevices) }

func testJobOnDevices(t *testing.T, sim *simctl.Sim, cfg Config) {
	claimAll(t)
	sim.SetDeviceCount(3)
	cfg.Backoff = never
	e, _ := jobs(t, cfg)
	j, want := newJob(t, e, Encaps, 50)
	runJob(t, e, j)
	total := uint64(0)
	for _, st := range e.Stats() {
		total += st.JobRows
	}
	if n := checkJob(t, j, want); n != 0 || total != 50 {
		t.Errorf("%d rows are pending, %d were computed", n, total)
	}
	sim.Lose(1, int(driver.ErrDeviceUnavailable))
	runJob(t, e, j)
	if n := checkJob(t, j, want); n > 4*laneRings {
		t.Errorf("%d rows are pending: more than one device can have had", n)
	}
}

// Whatever call fails, rows are right or pending, the device comes back, and nothing is left.
func TestJobFaults(t *testing.T) { eachWay(t, testJobFaults) }

func testJobFaults(t *testing.T, sim *simctl.Sim, cfg Config) {
	claimAll(t)
	step := 3
	if cfg.RingStreams { // the rest is the same
		step = 10
	}
	for _, call := range []string{"cuCtxSetCurrent", "cuStreamCreate", "cuEventCreate", "cuMemAlloc", "cuMemFree", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemsetD8Async",
		"cuEventRecord", "cuEventSynchronize", "cuStreamWaitEvent", "cuStreamSynchronize", "cuStreamDestroy", "cuEventDestroy", "cuLaunchKernel", "cuModuleGetFunction"} {
		for site := 0; ; site += step {
			sim.Reset()
			cfg.Chunk = 2
			e, err := Open(cfg)
			check(t, err)
			input, err := e.AllocPinned(1 << 16)
			check(t, err)
			k := kind(t, e, 653, Encaps)
			const rows = 14
			j := &Job{Kind: k, Rows: rows, Input: input.Bytes[:rows*k.InputSize()], Output: input.Bytes[20_000:][:rows*k.OutputSize()], Status: input.Bytes[60_000:][:4*rows]}
			in, out := newGenerator().row(t, 653, Encaps)
			for i := range rows {
				copy(row(j.Input, k.InputSize(), i), in)
			}
			sim.FailCall(0, call, site, 1, int(driver.ErrInvalidValue), false)
			reported := runJob(t, e, j)
			pending := checkJob(t, j, slices.Repeat(out, rows))
			if reported != pending {
				t.Errorf("%s, site %d: %d rows are pending, of which Run says %d", call, site, pending, reported)
			}
			if err := e.Close(); err != nil && sim.LastFault() == "" {
				t.Errorf("%s, site %d: %v", call, site, err)
			}
			if err := input.Free(); err != nil && sim.LastFault() == "" {
				t.Errorf("%s, site %d: %v", call, site, err)
			}
			if st := sim.Stats(0); st.Leaks() || sim.LastFault() == "" && pending != 0 {
				t.Errorf("%s, site %d: %d rows are pending, left %+v", call, site, pending, st)
			}
			if sim.LastFault() == "" {
				break
			}
		}
	}
}

// A freedWatch sees whether device memory is wiped when it is freed.
type freedWatch struct {
	driver.API
	mu    sync.Mutex
	sizes map[driver.DevicePtr]int
	left  int // times that it was not
}

func (d *freedWatch) MemAlloc(n int) (driver.DevicePtr, error) {
	p, err := d.API.MemAlloc(n)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sizes[p] = n
	return p, err
}

func (d *freedWatch) MemFree(p driver.DevicePtr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	held := make([]byte, d.sizes[p])
	if err := errors.Join(d.API.CopyToHost(held, p, 0), d.API.StreamSynchronize(0)); err != nil {
		return err
	}
	if !bytes.Equal(held, make([]byte, len(held))) {
		d.left++
	}
	return d.API.MemFree(p)
}

// Wherever a plan is broken off, nothing of it is left in the memory that is freed then.
func TestJobWipedAfterFault(t *testing.T) {
	for _, op := range []Operation{KeyGen, Encaps, Decaps} {
		again := true
		for site := 0; again; site++ {
			t.Run(fmt.Sprintf("%v/%d", op, site), func(t *testing.T) {
				sim, cfg := simulated(t)
				api, err := driver.Open(cfg.Library)
				check(t, err)
				d := &freedWatch{API: api, sizes: make(map[driver.DevicePtr]int)}
				cfg.Driver, cfg.Backoff = d, never
				e := open(t, cfg)
				j, _ := newJob(t, e, op, 2)
				sim.FailCall(0, "cuLaunchKernel", site, 1, int(driver.ErrInvalidValue), false)
				runJob(t, e, j)
				check(t, e.Close())
				if d.left > 0 {
					t.Errorf("something is left in %d pieces of memory", d.left)
				}
				again = sim.LastFault() != ""
			})
		}
	}
}

// soon is when something hangs that does.
const soon = 50 * time.Millisecond

// hanging returns an engine for devices that hang, and are not reset since there is pinned memory: what they hold they keep, and a process would have to be
// started again. Here the simulator is.
func hanging(t *testing.T, sim *simctl.Sim, cfg Config) *Engine {
	t.Helper()
	e, err := Open(cfg)
	check(t, err)
	t.Cleanup(func() {
		check(t, e.Close())
		sim.Reset()
		contextUses.Lock()
		defer contextUses.Unlock()
		contextUses.of = nil
	})
	return e
}

// A job's device hangs: Run says that the memory is lost, and when the device comes back nobody is called any more.
func TestJobHangs(t *testing.T) { eachWay(t, testJobHangs) }

func testJobHangs(t *testing.T, sim *simctl.Sim, cfg Config) {
	cfg.Hang = soon
	e := hanging(t, sim, cfg)
	session := e.devices[0].session.Load()
	j, _ := newJob(t, e, Encaps, 3)
	var called atomic.Bool
	j.After = func(int, int, int) { called.Store(true) }
	sim.HangLaunch(0, 0)
	if _, err := e.Run(t.Context(), j); !errors.Is(err, ErrLost) {
		t.Errorf("%v, want ErrLost", err)
	}
	st := awaitState(t, e, 0, StateClosed)
	if st.Hangs != 1 || st.Resets != 0 {
		t.Errorf("%+v", st)
	}
	check(t, e.Close())
	sim.ReleaseHang(0)
	session.busy.Wait() // the job's thread comes back and finds nobody
	if called.Load() {
		t.Error("After was called though Run had given the job up")
	}
}

// leftOver checks that a job whose device hangs without its memory comes back undone, and stays as its owner leaves it when the device comes back.
func leftOver(t *testing.T, e *Engine, j *Job, comeBack func()) {
	t.Helper()
	session := e.devices[0].session.Load()
	if pending := runJob(t, e, j); pending != j.Rows {
		t.Errorf("%d rows are pending, want %d", pending, j.Rows)
	}
	if st := e.Stats()[0]; st.Hangs != 1 {
		t.Errorf("%+v", st)
	}
	if j.Table != nil {
		check(t, j.Table.Close())
	}
	status := bytes.Clone(j.Status)
	rows := j.Rows
	*j = Job{Status: j.Status} // it is its owner's again
	awaitState(t, e, 0, StateClosed)
	comeBack()
	session.busy.Wait()
	if !bytes.Equal(j.Status, status) || len(status) != 4*rows {
		t.Error("the device came back and wrote into the job's memory")
	}
}

// A stuckAlloc does not return from MemAlloc, as a driver whose device hangs.
type stuckAlloc struct {
	driver.API
	skip    atomic.Int64 // calls that return
	release chan struct{}
}

func (d *stuckAlloc) MemAlloc(n int) (driver.DevicePtr, error) {
	if d.skip.Add(-1) == -1 {
		<-d.release
	}
	return d.API.MemAlloc(n)
}

// The driver hangs in an allocation before the device has any of the job's memory, for a ring or for a table.
func TestJobHangsInAlloc(t *testing.T) {
	for name, tabled := range map[string]bool{"ring": false, "table": true} {
		t.Run(name, func(t *testing.T) {
			sim, cfg := simulated(t)
			api, err := driver.Open(cfg.Library)
			check(t, err)
			d := &stuckAlloc{API: api, release: make(chan struct{})}
			d.skip.Store(never.Nanoseconds())
			cfg.Driver, cfg.Hang = d, soon
			e := hanging(t, sim, cfg)
			j, _ := newJob(t, e, Encaps, 3)
			if tabled {
				withTable(t, e, j)
			}
			d.skip.Store(0)
			leftOver(t, e, j, func() { close(d.release) })
		})
	}
}

// A device does not open: the error says what may be done, and what comes of it after all is freed, whoever else uses the context.
func TestOpenTimeout(t *testing.T) {
	sim, cfg := simulated(t)
	open(t, cfg)
	held := func() [6]uint64 {
		st := sim.Stats(0)
		return [...]uint64{st.Contexts, st.Streams, st.Events, st.Modules, st.DeviceAllocations, st.PinnedAllocations}
	}
	before := held()
	api, err := driver.Open(cfg.Library)
	check(t, err)
	d := &stuckAlloc{API: api, release: make(chan struct{})}
	cfg.Driver, cfg.OpenTimeout = d, soon
	if _, err := Open(cfg); !errors.Is(err, errStuck) || !strings.Contains(err.Error(), "did not open within 50ms; raise OpenTimeout") {
		t.Errorf("%v, want that the device did not open", err)
	}
	close(d.release)
	eventually(t, func() bool { return held() == before }, func() string { return fmt.Sprintf("left behind: %d, before %d", held(), before) })
}

// A device does not open again: Close does not wait as long as it may take to open.
func TestCloseOpening(t *testing.T) {
	sim, cfg := simulated(t)
	api, err := driver.Open(cfg.Library)
	check(t, err)
	d := &stuckAlloc{API: api, release: make(chan struct{})}
	d.skip.Store(never.Nanoseconds())
	cfg.Driver, cfg.OpenTimeout = d, never
	e, err := Open(cfg)
	check(t, err)
	d.skip.Store(0)
	e.devices[0].session.Load().fail(driver.ErrInvalidValue)
	eventually(t, func() bool { return d.skip.Load() < 0 }, func() string { return "nobody opens the device again" })
	was := closeTime
	closeTime = soon
	defer func() { closeTime = was }()
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }()
	select {
	case err := <-closed:
		check(t, err)
	case <-time.After(enough):
		t.Error("Close waits for the device to open")
	}
	if st := e.Stats()[0]; st.State != StateClosed {
		t.Errorf("the device is %q", st.State)
	}
	close(d.release)
	eventually(t, func() bool { return !sim.Stats(0).Leaks() }, func() string { return fmt.Sprintf("left behind: %+v", sim.Stats(0)) })
}

// A stuckFree does not return from HostFree of one byte.
type stuckFree struct {
	driver.API
	release chan struct{}
	done    chan error
}

func (d *stuckFree) HostFree(b []byte) error {
	if len(b) > 1 {
		return d.API.HostFree(b)
	}
	<-d.release
	err := d.API.HostFree(b)
	d.done <- err
	return err
}

// The driver hangs in freeing pinned memory: while it may still be there, its context is not reset.
func TestFreeHangs(t *testing.T) {
	sim, cfg := simulated(t)
	api, err := driver.Open(cfg.Library)
	check(t, err)
	d := &stuckFree{API: api, release: make(chan struct{}), done: make(chan error, 1)}
	cfg.Driver = d
	e := hanging(t, sim, cfg)
	p, err := e.AllocPinned(1)
	check(t, err)
	was := closeTime
	closeTime = soon
	if err := p.Free(); !errors.Is(err, errStuck) {
		t.Errorf("%v, want that the driver is stuck", err)
	}
	closeTime = was
	e.devices[0].session.Load().fail(driver.ErrIllegalAddress)
	if st := awaitState(t, e, 0, StateClosed); st.Resets != 0 {
		t.Errorf("%+v", st)
	}
	close(d.release)
	check(t, <-d.done)
}

// withTable gives a job a table of one public key.
func withTable(t *testing.T, e *Engine, j *Job) {
	t.Helper()
	_, sk := newGenerator().row(t, 653, KeyGen)
	table, err := e.NewTable(j.Kind, scheme(653).PublicKeyOf(sk))
	check(t, err)
	j.Table = table
	input, _ := j.rowSizes()
	j.Input = j.Input[:j.Rows*input]
}

// The device hangs while a table is brought to it.
func TestTableUploadHangs(t *testing.T) { eachWay(t, testTableUploadHangs) }

func testTableUploadHangs(t *testing.T, sim *simctl.Sim, cfg Config) {
	cfg.Hang = soon
	e := hanging(t, sim, cfg)
	j, _ := newJob(t, e, Encaps, 3)
	withTable(t, e, j)
	sim.Hold(0, true)
	leftOver(t, e, j, func() { sim.Hold(0, false) })
}

// A worker's batch hangs: a job whose memory its device has is given up with it, though nothing of the job has had its time.
func TestJobHangsWithWorker(t *testing.T) { eachWay(t, testJobHangsWithWorker) }

func testJobHangsWithWorker(t *testing.T, sim *simctl.Sim, cfg Config) {
	e := hanging(t, sim, cfg)
	session := e.devices[0].session.Load()
	j, _ := newJob(t, e, Encaps, 3)
	sim.Hold(0, true)
	lost := make(chan error, 1)
	go func() { _, err := e.Run(t.Context(), j); lost <- err }()
	until(func() bool { return inHands(session.lane) })
	session.hang()
	if err := <-lost; !errors.Is(err, ErrLost) {
		t.Errorf("%v, want ErrLost", err)
	}
	sim.Hold(0, false)
	session.busy.Wait()
	awaitState(t, e, 0, StateClosed)
}

// until waits for what is bound to happen.
func until(happened func() bool) {
	for !happened() {
		time.Sleep(time.Millisecond)
	}
}

// inHands says whether a lane's device has some of a job's memory.
func inHands(l *lane) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heldLocked()
}

// A context that ends lets go of a job that waits for its turn.
func TestJobCancelWaiting(t *testing.T) { eachWay(t, testJobCancelWaiting) }

func testJobCancelWaiting(t *testing.T, sim *simctl.Sim, cfg Config) {
	e := open(t, cfg)
	first, want := newJob(t, e, Encaps, 3)
	second, _ := newJob(t, e, Encaps, 3)
	sim.Hold(0, true)
	done := make(chan error, 1)
	go func() { _, err := e.Run(t.Context(), first); done <- err }()
	until(func() bool { return inHands(e.devices[0].session.Load().lane) })
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { cancel(cause) })
	if pending, err := e.Run(ctx, second); !errors.Is(err, cause) || pending != 3 {
		t.Errorf("%v, want the cause; %d rows are pending", err, pending)
	}
	sim.Hold(0, false)
	check(t, <-done)
	if n := checkJob(t, first, want); n != 0 {
		t.Errorf("%d rows are pending", n)
	}
}

// A table is forgotten while a job that does not use it goes on.
func TestTableCloseMeanwhile(t *testing.T) {
	_, cfg := simulated(t)
	e := open(t, cfg)
	j, _ := newJob(t, e, Encaps, 3)
	withTable(t, e, j)
	runJob(t, e, j)
	session := e.devices[0].session.Load()
	l := session.lane
	l.turn <- struct{}{} // a job's, between two of its chunks
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	check(t, session.api.CtxSetCurrent(session.context))
	closed := make(chan error, 1)
	go func() { closed <- j.Table.Close() }()
	until(func() bool {
		check(t, l.oblige())
		return len(closed) == 1
	})
	check(t, <-closed)
	check(t, session.api.CtxSetCurrent(0))
	l.rest()
	l.release()
	if len(l.tables) != 0 {
		t.Errorf("%d tables are left", len(l.tables))
	}
}

// A context that has ended, or ends, ends a job.
func TestJobCancel(t *testing.T) {
	_, cfg := simulated(t)
	claimAll(t)
	e, _ := jobs(t, cfg)
	j, want := newJob(t, e, Encaps, 40)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	j.After = func(int, int, int) { cancel(cause) }
	if _, err := e.Run(ctx, j); !errors.Is(err, cause) {
		t.Errorf("%v, want the cause", err)
	}
	if n := checkJob(t, j, want); n == 0 || n == 40 {
		t.Errorf("%d rows are pending", n)
	}
}

func TestJobRefused(t *testing.T) {
	_, cfg := simulated(t)
	e, other := open(t, cfg), open(t, cfg)
	for name, change := range map[string]func(*Job){
		"row at least":                  func(j *Job) { j.Rows = 0 },
		"Input has":                     func(j *Job) { j.Input = j.Input[1:] },
		"Status has":                    func(j *Job) { j.Status = nil },
		"Index has":                     func(j *Job) { j.Index = j.Status },
		"another engine's":              func(j *Job) { j.Kind = kind(t, other, 653, Encaps) },
		"Output is not pinned":          func(j *Job) { j.Output = make([]byte, len(j.Output)) },
		"Input is not pinned memory; A": func(j *Job) { j.Input = bytes.Clone(j.Input) },
	} {
		j, _ := newJob(t, e, Encaps, 2)
		change(j)
		if _, err := e.Run(t.Context(), j); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want an error about %s", err, name)
		}
	}
	j, _ := newJob(t, e, Encaps, 2)
	withTable(t, e, j)
	check(t, j.Table.Close())
	if _, err := e.Run(t.Context(), j); err == nil || !strings.Contains(err.Error(), "Table that is closed") {
		t.Errorf("%v, want an error about the Table", err)
	}
	if _, err := e.AllocPinned(0); err == nil {
		t.Error("no bytes were allocated")
	}
}
