package gpu

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
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

// A lane runs Jobs on a device, one at a time: a stream copies in, others compute, one copies out, and events pass the chunks on; with
// Config.RingStreams each ring has one stream for all of that. Its memory is made by the first job.
type lane struct {
	launcher
	turn     chan struct{} // has room for the token of who uses the lane
	errands  chan errand   // for who uses the lane, from those who do not wait until he is done
	in, out  driver.Stream // in is the tables' too
	wipe     driver.Stream // where memory is wiped, out of the copies' way
	computes [laneComputes]driver.Stream
	rings    [laneRings]ring
	tables   map[*Table]driver.DevicePtr

	gate     sync.Mutex
	driving  bool // a thread is in the driver for the lane, or about to call it
	deadline time.Time
	overdue  bool // the watchdog has seen that it is over
	givenUp  bool // and once more: no thread calls the driver for the lane any more
	watchdog *time.Timer
	gone     chan struct{} // closed when that thread has come back to a session that hangs, or its watchdog has given it up
	once     sync.Once     // closes it

	mu      sync.Mutex
	serving *run // that the lane works for: who sets it to nil, the lane or Run that gives up, ends that
}

// An errand is a table to forget.
type errand struct {
	table *Table
	done  chan error // has room for the answer
}

// A ring is memory for a chunk, used over and over.
type ring struct {
	plan                   kernels.Plan
	stream                 driver.Stream // with Config.RingStreams
	memory, scratch, index block
	copied, computed       driver.Event
	taken, free            driver.Event // the results are with the host; and wiped
	first, rows            int          // of the chunk under way; no rows if there is none; changed by lane.working only
}

// A path is the streams that a chunk passes through.
type path struct{ in, compute, out, wipe driver.Stream }

// path returns the streams for chunk i, which is to use a ring.
func (l *lane) path(i int, g *ring) path {
	if g.stream != 0 {
		return path{g.stream, g.stream, g.stream, g.stream}
	}
	return path{l.in, l.computes[i%laneComputes], l.out, l.wipe}
}

// A block is device memory that grows.
type block struct {
	at   driver.DevicePtr
	size int
}

func newLane(s *session) *lane {
	return &lane{launcher: newLauncher(s), turn: make(chan struct{}, 1), errands: make(chan errand), tables: make(map[*Table]driver.DevicePtr), gone: make(chan struct{})}
}

// acquire waits until nobody uses the lane; it reports false if that will not be, or ctx ends before.
func (l *lane) acquire(ctx context.Context) bool {
	select {
	case l.turn <- struct{}{}:
		return true
	case <-ctx.Done():
	case <-l.session.hung:
	}
	return false
}

func (l *lane) release() { <-l.turn }

// begin has the lane work for a run, unless the session has ended: with the lane's streams half made, perhaps, or in a hang, when Run waits for no
// lane that does not work for it yet.
func (l *lane) begin(r *run) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session.isStopping() {
		return false
	}
	l.serving = r
	return true
}

// working calls fn, unless Run has given the lane up: it does not while fn is called. All that touches the job, its memory or its owner is done in
// here, but for what the driver does with a ring's rows.
func (l *lane) working(r *run, fn func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.serving != r {
		return errHang
	}
	fn()
	return nil
}

// end ends the lane's work for a run, unless Run has given the lane up. The memory is lost as it is then if the session hangs and the device has some of it.
func (l *lane) end(r *run) {
	_ = l.working(r, func() {
		if l.heldLocked() {
			r.lost.Store(true)
		}
		l.serving = nil
	})
}

// giveUp ends the lane's work for a run whose device hangs. It reports whether the lane worked for it, and whether the device has some of its memory.
func (l *lane) giveUp(r *run) (worked, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.serving != r {
		return false, false
	}
	l.serving = nil
	return true, l.heldLocked()
}

// heldLocked says whether the device has some of a job's memory.
func (l *lane) heldLocked() bool {
	for i := range l.rings {
		if l.rings[i].rows > 0 {
			return true
		}
	}
	return false
}

// serve takes chunks of a job until none are left. A fault ends the session.
func (l *lane) serve(r *run) {
	if !l.acquire(r.ctx) {
		return
	}
	defer l.release()
	if !l.begin(r) {
		return
	}
	defer l.end(r)
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	defer l.rest()
	if err := l.run(r); err != nil {
		l.session.fail(err)
		l.abandon(r)
	}
}

func (l *lane) run(r *run) error {
	if err := l.watch(); err != nil {
		return err
	}
	if err := l.prepare(); err != nil {
		return err
	}
	for i := 0; ; i++ {
		g := &l.rings[i%laneRings]
		if err := l.await(r, g); err != nil {
			return err
		}
		if err := l.oblige(); err != nil {
			return err
		}
		first, n, err := l.next(r)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		if err := l.watch(); err != nil {
			return err
		}
		if err := l.enqueue(r, g, first, n, l.path(i, g)); err != nil {
			return err
		}
	}
	var errs []error
	for i := range l.rings {
		errs = append(errs, l.await(r, &l.rings[i]))
	}
	return errors.Join(errs...)
}

// next claims rows, which are ready to be read then; n is 0 when there are none for this lane.
func (l *lane) next(r *run) (first, n int, err error) {
	l.rest()
	if l.session.isStopping() {
		return 0, 0, nil
	}
	err = l.working(r, func() {
		if first, n = r.claim(); n > 0 && r.Before != nil {
			r.Before(first, n)
		}
	})
	return first, n, err
}

// await waits for a ring's chunk, if it has one.
func (l *lane) await(r *run, g *ring) error {
	if g.rows == 0 {
		return nil
	}
	if err := l.watch(); err != nil {
		return err
	}
	if err := l.session.api.EventSynchronize(g.free); err != nil {
		return err
	}
	l.rest()
	return l.working(r, func() {
		first, n := g.first, g.rows
		g.rows = 0
		l.session.device.jobRows.Add(uint64(n))
		r.finished(first)
		if r.After != nil {
			r.After(first, n, l.session.device.number)
		}
	})
}

// abandon forgets the chunks that are under way when the lane fails, once the device does not touch them any more.
func (l *lane) abandon(r *run) {
	if l.working(r, func() {}) != nil || l.watch() != nil {
		return // the session is being taken apart meanwhile
	}
	api := l.session.api
	for _, stream := range l.streams() {
		_ = api.StreamSynchronize(stream) // an error says that it does nothing any more
	}
	_ = l.working(r, func() { // or its caller is gone, and perhaps the memory
		for i := range l.rings {
			l.rings[i].rows = 0
		}
	})
}

// watch says that the calling thread is about to call the driver, for which it has Config.Hang. It fails where the session hangs: the driver may be
// reset then.
func (l *lane) watch() error {
	l.gate.Lock()
	defer l.gate.Unlock()
	if l.givenUp || l.session.isHung() {
		return errHang
	}
	hang := l.session.device.engine.config.Hang
	l.driving, l.overdue, l.deadline = true, false, time.Now().Add(hang)
	if l.watchdog == nil {
		l.watchdog = time.AfterFunc(hang, l.bark)
	} else {
		l.watchdog.Reset(hang)
	}
	return nil
}

// rest says that the thread has come back from the driver.
func (l *lane) rest() {
	l.gate.Lock()
	defer l.gate.Unlock()
	if !l.driving {
		return
	}
	l.driving = false
	l.watchdog.Stop()
	if l.session.isHung() {
		l.leave()
	}
}

// leave says that nobody need wait for the thread.
func (l *lane) leave() { l.once.Do(func() { close(l.gone) }) }

// bark is the watchdog's: what is waited for has had its time, and then some.
func (l *lane) bark() {
	if l.giveUpThread() {
		l.session.hang()
		l.leave()
	}
}

func (l *lane) giveUpThread() bool {
	l.gate.Lock()
	defer l.gate.Unlock()
	switch late := l.driving && !time.Now().Before(l.deadline); {
	case late && l.overdue:
		l.givenUp = true
	case late:
		l.overdue = true
		l.watchdog.Reset(patience(l.session.device.engine.config.Hang))
	}
	return l.givenUp
}

// awaitGone returns when no thread is in the driver for the lane, or the one that is hangs as well. The session hangs, so that none follows.
func (l *lane) awaitGone() {
	l.gate.Lock()
	driving := l.driving
	l.gate.Unlock()
	if driving {
		<-l.gone
	}
}

// enqueue puts a chunk into its streams.
func (l *lane) enqueue(r *run, g *ring, first, n int, p path) error {
	s, k := l.session, r.Kind
	options := kernels.Options{}
	var table driver.DevicePtr
	if r.Table != nil {
		options.Table = r.Table.rows
		var err error
		if table, err = l.table(r); err != nil {
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
	// From here on the device may touch the job's memory.
	if err := l.working(r, func() { g.first, g.rows = first, n }); err != nil {
		return err
	}
	if err := s.api.CopyToDevice(at[kernels.Input], r.Input[first*input:(first+n)*input], p.in); err != nil {
		return err
	}
	if len(r.Index) > 0 {
		if err := s.api.CopyToDevice(at[kernels.Index], r.Index[first*indexSize:(first+n)*indexSize], p.in); err != nil {
			return err
		}
	}
	if err := l.pass(g.copied, p.in, p.compute); err != nil {
		return err
	}
	if err := l.launch(g.plan.Launches, &at, p.compute); err != nil {
		return err
	}
	if err := l.pass(g.computed, p.compute, p.out); err != nil {
		return err
	}
	if err := s.api.CopyToHost(r.Output[first*output:(first+n)*output], at[kernels.Output], p.out); err != nil {
		return err
	}
	if err := s.api.CopyToHost(r.Status[first*statusSize:(first+n)*statusSize], at[kernels.Status], p.out); err != nil {
		return err
	}
	if err := l.pass(g.taken, p.out, p.wipe); err != nil {
		return err
	}
	if err := s.api.MemsetAsync(g.memory.at, 0, size, p.wipe); err != nil {
		return err
	}
	return s.api.EventRecord(g.free, p.wipe)
}

// pass has a chunk go on in a stream when it is done with another.
func (l *lane) pass(done driver.Event, from, to driver.Stream) error {
	if from == to {
		return nil
	}
	api := l.session.api
	return errors.Join(api.EventRecord(done, from), api.StreamWaitEvent(to, done))
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

// table returns where a run's table lies on the device, and puts it there first if it is not.
func (l *lane) table(r *run) (driver.DevicePtr, error) {
	t := r.Table
	if p, ok := l.tables[t]; ok {
		return p, nil
	}
	api := l.session.api
	p, err := api.MemAlloc(t.size)
	if err != nil {
		return 0, err
	}
	l.tables[t] = p
	var keys []byte
	if err := l.working(r, func() { keys = t.keys }); err != nil { // the table may be closed by now
		return 0, err
	}
	return p, errors.Join(api.CopyToDevice(p, keys, l.in), api.StreamSynchronize(l.in))
}

// forget wipes and frees a table. While a job uses the lane, however long, it is done between two chunks.
func (l *lane) forget(t *Table) error {
	done := make(chan error, 1)
	select {
	case l.turn <- struct{}{}:
		l.session.busy.Add(1) // for longer than the caller's, if the driver does not return
		go func() {
			defer l.session.busy.Done()
			defer l.release()
			runtime.LockOSThread() // and never unlocked: the context goes with the thread
			done <- l.forgetHere(t)
		}()
	case l.errands <- errand{table: t, done: done}:
	case <-l.session.hung:
		return errStuck
	}
	select {
	case err := <-done:
		return err
	case <-l.session.hung:
		return errStuck
	}
}

// forgetHere is forget for whose turn it is, on a thread of his own.
func (l *lane) forgetHere(t *Table) error {
	if err := l.watch(); err != nil {
		return err
	}
	defer l.rest()
	if err := l.session.api.CtxSetCurrent(l.session.context); err != nil {
		return err
	}
	return l.drop(t)
}

// oblige runs an errand, if there is one.
func (l *lane) oblige() error {
	select {
	case e := <-l.errands:
		err := l.watch()
		if err == nil {
			err = l.drop(e.table)
		}
		e.done <- err
		return err
	default:
		return nil
	}
}

// drop wipes and frees a table. The context is current, and the lane the caller's.
func (l *lane) drop(t *Table) error {
	p, ok := l.tables[t]
	if !ok {
		return nil
	}
	delete(l.tables, t)
	api := l.session.api
	return errors.Join(api.MemsetAsync(p, 0, t.size, l.in), api.StreamSynchronize(l.in), api.MemFree(p))
}

// streams returns those that there are.
func (l *lane) streams() []driver.Stream {
	all := append([]driver.Stream{l.in, l.out, l.wipe}, l.computes[:]...)
	for i := range l.rings {
		all = append(all, l.rings[i].stream)
	}
	return slices.DeleteFunc(all, func(s driver.Stream) bool { return s == 0 })
}

// wanted returns where the streams go that the lane needs.
func (l *lane) wanted() []*driver.Stream {
	all := []*driver.Stream{&l.in}
	if l.session.device.engine.config.RingStreams {
		for i := range l.rings {
			all = append(all, &l.rings[i].stream)
		}
		return all
	}
	for i := range l.computes {
		all = append(all, &l.computes[i])
	}
	return append(all, &l.out, &l.wipe)
}

// prepare makes the context current and, the first time, the streams and events.
func (l *lane) prepare() (err error) {
	api := l.session.api
	if err := api.CtxSetCurrent(l.session.context); err != nil || l.in != 0 {
		return err
	}
	for _, stream := range l.wanted() {
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
		wipe(l.rings[i].scratch.at, l.rings[i].scratch.size) // which a plan that was broken off has left as it was
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
