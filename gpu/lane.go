package gpu

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels"
)

// How a lane overlaps its work: the engines that copy to and from the device and the multiprocessors each have something to do while there are
// several chunks under way, and two streams that compute fill each other's gaps.
const (
	laneRings    = 5
	laneComputes = 2
)

const indexSize = 4 // bytes of an entry of a Job's Index

// A lane runs Jobs on a device, one at a time: a stream copies in, others compute, one copies out, and events pass the chunks on. Its memory is made
// by the first job.
type lane struct {
	launcher
	turn     chan struct{} // has room for the token of who uses the lane
	serving  atomic.Pointer[run]
	in, out  driver.Stream
	wipe     driver.Stream // where memory is wiped, out of the copies' way
	computes [laneComputes]driver.Stream
	rings    [laneRings]ring
	tables   map[*Table]driver.DevicePtr

	watchdog *time.Timer
	deadline atomic.Int64 // in nanoseconds since the lane was made; 0 while nothing is waited for
	made     time.Time
	hung     chan struct{} // closed when a job does not come back
	barked   sync.Once
}

// A ring is memory for a chunk, used over and over.
type ring struct {
	plan                   kernels.Plan
	memory, scratch, index block
	copied, computed       driver.Event
	taken, free            driver.Event // the results are with the host; and wiped
	first, rows            int          // of the chunk under way; no rows if there is none
}

// A block is device memory that grows.
type block struct {
	at   driver.DevicePtr
	size int
}

func newLane(s *session) *lane {
	return &lane{launcher: newLauncher(s), turn: make(chan struct{}, 1), tables: make(map[*Table]driver.DevicePtr), made: time.Now(), hung: make(chan struct{})}
}

// acquire waits until nobody uses the lane; it reports false if that will not be.
func (l *lane) acquire() bool {
	select {
	case l.turn <- struct{}{}:
		return true
	case <-l.hung:
		return false
	}
}

func (l *lane) release() { <-l.turn }

// serve takes chunks of a job until none are left. A fault ends the session.
func (l *lane) serve(r *run) {
	if !l.acquire() {
		return
	}
	defer l.release()
	l.serving.Store(r)
	defer l.serving.Store(nil)
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	if l.watchdog == nil {
		l.watchdog = time.AfterFunc(someday, l.bark)
	}
	defer l.watchdog.Stop()
	l.watch()
	defer l.deadline.Store(0)
	if err := l.run(r); err != nil {
		l.session.fail(err)
		l.abandon()
	}
}

func (l *lane) run(r *run) error {
	if err := l.prepare(); err != nil {
		return err
	}
	for i := 0; ; i++ {
		g := &l.rings[i%laneRings]
		if err := l.await(r, g); err != nil {
			return err
		}
		first, n := 0, 0
		if !l.session.isStopping() {
			first, n = r.claim()
		}
		if n == 0 {
			break
		}
		l.deadline.Store(0)
		if r.Before != nil {
			r.Before(first, n)
		}
		if err := l.enqueue(r, g, first, n, l.computes[i%laneComputes]); err != nil {
			return err
		}
	}
	var errs []error
	for i := range l.rings {
		errs = append(errs, l.await(r, &l.rings[i]))
	}
	return errors.Join(errs...)
}

// await waits for a ring's chunk, if it has one.
func (l *lane) await(r *run, g *ring) error {
	if g.rows == 0 {
		return nil
	}
	l.watch()
	if err := l.session.api.EventSynchronize(g.free); err != nil {
		return err
	}
	l.deadline.Store(0)
	first, n := g.first, g.rows
	g.rows = 0
	l.session.device.jobRows.Add(uint64(n))
	r.finished(first)
	if r.After != nil {
		r.After(first, n, l.session.device.number)
	}
	return nil
}

// abandon forgets the chunks that are under way when the lane fails, once the device does not touch them any more.
func (l *lane) abandon() {
	api := l.session.api
	l.watch()
	for _, stream := range l.streams() {
		_ = api.StreamSynchronize(stream) // an error says that it does nothing any more
	}
	select {
	case <-l.hung: // its caller is gone, and perhaps the memory
		return
	default:
	}
	for i := range l.rings {
		l.rings[i].rows = 0
	}
}

func (l *lane) watch() {
	hang := l.session.device.engine.config.Hang
	l.deadline.Store(int64(time.Since(l.made) + hang))
	l.watchdog.Reset(hang)
}

// bark is the watchdog's: what is waited for has had its time.
func (l *lane) bark() {
	d := l.deadline.Load()
	if d == 0 || int64(time.Since(l.made)) < d {
		return
	}
	l.session.hang()
	l.barked.Do(func() { close(l.hung) })
}

// enqueue puts a chunk into the streams.
func (l *lane) enqueue(r *run, g *ring, first, n int, compute driver.Stream) error {
	s, k := l.session, r.Kind
	options := kernels.Options{}
	var table driver.DevicePtr
	if r.Table != nil {
		options.Table = r.Table.rows
		var err error
		if table, err = l.table(r.Table); err != nil {
			return err
		}
	}
	if err := k.kem.set.Plan(&g.plan, k.kem.operation, n, s.device.shape(), options); err != nil {
		return err
	}
	results := aligned(g.plan.InputSize)
	size := results + k.statuses(n) + g.plan.OutputSize
	if err := errors.Join(l.grow(&g.memory, size), l.grow(&g.scratch, g.plan.ScratchSize), l.grow(&g.index, len(r.Index)/r.Rows*n)); err != nil {
		return err
	}
	at := addresses{
		kernels.Input: g.memory.at, kernels.Status: g.memory.at.Offset(results), kernels.Output: g.memory.at.Offset(results + k.statuses(n)),
		kernels.Scratch: g.scratch.at, kernels.Table: table, kernels.Index: g.index.at,
	}
	input, output := r.rowSizes()
	g.first, g.rows = first, n // from here on the device may touch the job's memory
	l.watch()
	if err := s.api.CopyToDevice(at[kernels.Input], r.Input[first*input:(first+n)*input], l.in); err != nil {
		return err
	}
	if len(r.Index) > 0 {
		if err := s.api.CopyToDevice(at[kernels.Index], r.Index[first*indexSize:(first+n)*indexSize], l.in); err != nil {
			return err
		}
	}
	if err := errors.Join(s.api.EventRecord(g.copied, l.in), s.api.StreamWaitEvent(compute, g.copied)); err != nil {
		return err
	}
	if err := l.launch(g.plan.Launches, &at, compute); err != nil {
		return err
	}
	if err := errors.Join(s.api.EventRecord(g.computed, compute), s.api.StreamWaitEvent(l.out, g.computed)); err != nil {
		return err
	}
	if err := s.api.CopyToHost(r.Output[first*output:(first+n)*output], at[kernels.Output], l.out); err != nil {
		return err
	}
	if err := s.api.CopyToHost(r.Status[first*statusSize:(first+n)*statusSize], at[kernels.Status], l.out); err != nil {
		return err
	}
	if err := errors.Join(s.api.EventRecord(g.taken, l.out), s.api.StreamWaitEvent(l.wipe, g.taken)); err != nil {
		return err
	}
	if err := s.api.MemsetAsync(g.memory.at, 0, size, l.wipe); err != nil {
		return err
	}
	return s.api.EventRecord(g.free, l.wipe)
}

// grow makes a block n bytes at least. Its ring is at rest.
func (l *lane) grow(b *block, n int) (err error) {
	if n <= b.size {
		return nil
	}
	api := l.session.api
	if b.at != 0 {
		if err := api.MemFree(b.at); err != nil {
			return err
		}
		*b = block{}
	}
	if b.at, err = api.MemAlloc(n); err == nil {
		b.size = n
	}
	return err
}

// table returns where a table lies on the device, and puts it there first if it is not.
func (l *lane) table(t *Table) (driver.DevicePtr, error) {
	if p, ok := l.tables[t]; ok {
		return p, nil
	}
	api := l.session.api
	p, err := api.MemAlloc(len(t.keys))
	if err != nil {
		return 0, err
	}
	l.tables[t] = p
	return p, errors.Join(api.CopyToDevice(p, t.keys, l.in), api.StreamSynchronize(l.in))
}

// forget wipes and frees a table.
func (l *lane) forget(t *Table) error {
	if !l.acquire() {
		return errStuck
	}
	defer l.release()
	p, ok := l.tables[t]
	if !ok {
		return nil
	}
	delete(l.tables, t)
	api := l.session.api
	err, returned := within(closeTime, func() error {
		return errors.Join(api.CtxSetCurrent(l.session.context), api.MemsetAsync(p, 0, t.size, l.in), api.StreamSynchronize(l.in), api.MemFree(p))
	})
	if !returned {
		return errStuck
	}
	return err
}

func (l *lane) streams() []driver.Stream {
	return slices.DeleteFunc(append([]driver.Stream{l.in, l.out, l.wipe}, l.computes[:]...), func(s driver.Stream) bool { return s == 0 })
}

// prepare makes the context current and, the first time, the streams and events.
func (l *lane) prepare() (err error) {
	api := l.session.api
	if err := api.CtxSetCurrent(l.session.context); err != nil || l.wipe != 0 {
		return err
	}
	streams := []*driver.Stream{&l.in}
	for i := range l.computes {
		streams = append(streams, &l.computes[i])
	}
	for _, stream := range append(streams, &l.out, &l.wipe) {
		if *stream, err = api.StreamCreate(0); err != nil {
			return err
		}
	}
	for i := range l.rings {
		g := &l.rings[i]
		for _, event := range []*driver.Event{&g.copied, &g.computed, &g.taken} {
			if *event, err = api.EventCreate(driver.EventNoTiming); err != nil {
				return err
			}
		}
		if g.free, err = api.EventCreate(driver.EventNoTiming | driver.EventBlocking); err != nil {
			return err
		}
	}
	return nil
}

// free waits for the streams, wipes and frees all that the lane has made.
func (l *lane) free() error {
	api := l.session.api
	var errs []error
	wipe := func(p driver.DevicePtr, n int) {
		if p != 0 {
			errs = append(errs, api.MemsetAsync(p, 0, n, l.in))
		}
	}
	for _, stream := range l.streams() {
		errs = append(errs, api.StreamSynchronize(stream))
	}
	for i := range l.rings {
		wipe(l.rings[i].memory.at, l.rings[i].memory.size)
	}
	for t, p := range l.tables {
		wipe(p, t.size)
	}
	if l.in != 0 {
		errs = append(errs, api.StreamSynchronize(l.in))
	}
	for _, stream := range l.streams() {
		errs = append(errs, api.StreamDestroy(stream))
	}
	for i := range l.rings {
		g := &l.rings[i]
		for _, e := range []driver.Event{g.copied, g.computed, g.taken, g.free} {
			if e != 0 {
				errs = append(errs, api.EventDestroy(e))
			}
		}
		for _, b := range []block{g.memory, g.scratch, g.index} {
			if b.at != 0 {
				errs = append(errs, api.MemFree(b.at))
			}
		}
	}
	for _, p := range l.tables {
		errs = append(errs, api.MemFree(p))
	}
	return errors.Join(errs...)
}
