//go:build sim

package gpu

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/internal/bench"
)

// An echo is a device whose results say which row they are of. It copies when it is waited for, as late as may be, and does so early, late,
// not at all or with an error, at random; and just when it is done a wave of contexts ends.
type echo struct {
	*bench.Idle
	protect bool // memory that is freed cannot be touched; else it is Go's, which the race detector sees
	engine  *Engine
	kinds   []*Kind

	mu     sync.Mutex
	r      *rand.Rand
	copies map[driver.Stream]*echoed
	stream map[driver.Event]driver.Stream
	host   [][]byte // all that there ever was
	reset  chan struct{}

	wave atomic.Pointer[wave]
}

// echoed is the copies of a batch.
type echoed struct{ from, to []byte }

// A wave is a context that many callers have.
type wave struct {
	context.Context
	cancel context.CancelFunc
}

var errWave = errors.New("the wave is over")

func newWave() *wave {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &wave{ctx, func() { cancel(errWave) }}
}

func newEcho(protect bool) *echo {
	d := &echo{Idle: new(bench.Idle), protect: protect, r: rand.New(rand.NewPCG(*seed, 2)), copies: make(map[driver.Stream]*echoed),
		stream: make(map[driver.Event]driver.Stream), reset: make(chan struct{})}
	d.wave.Store(newWave())
	return d
}

func (d *echo) HostAlloc(n int) (memory []byte, err error) {
	if d.protect {
		memory, err = syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	} else {
		memory = make([]byte, n)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.host = append(d.host, memory)
	return memory, err
}

func (d *echo) HostFree(memory []byte) error {
	if d.protect {
		return syscall.Mprotect(memory, syscall.PROT_NONE)
	}
	return nil
}

// PrimaryCtxReset takes all memory, and copies come no more.
func (d *echo) PrimaryCtxReset(int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.reset)
	d.reset = make(chan struct{})
	clear(d.copies)
	for _, memory := range d.host {
		if err := d.HostFree(memory); err != nil {
			return err
		}
	}
	return nil
}

// unwiped says whether any memory that there ever was holds something.
func (d *echo) unwiped() (is bool, err error) {
	for _, memory := range d.host {
		if d.protect {
			err = errors.Join(err, syscall.Mprotect(memory, syscall.PROT_READ))
		}
		is = is || !bytes.Equal(memory, make([]byte, len(memory)))
		if d.protect {
			err = errors.Join(err, syscall.Munmap(memory))
		}
	}
	return is, err
}

func (d *echo) CopyToDevice(_ driver.DevicePtr, from []byte, s driver.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.copies[s] = &echoed{from: from}
	return nil
}

func (d *echo) CopyToHost(to []byte, _ driver.DevicePtr, s driver.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.copies[s]; c != nil {
		c.to = to
	}
	return nil
}

func (d *echo) EventRecord(e driver.Event, s driver.Stream) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stream[e] = s
	return nil
}

// What an echo does, once in so many batches.
const (
	echoLate  = 40
	echoFault = 150
	echoHang  = 300

	echoMaxWait = 2 * time.Millisecond
)

func (d *echo) EventSynchronize(e driver.Event) error {
	d.mu.Lock()
	takes := time.Duration(d.r.Int64N(int64(100 * time.Microsecond)))
	var err error
	switch n := d.r.IntN; {
	case n(echoHang) == 0:
		reset := d.reset
		d.mu.Unlock()
		if d.hang(e) {
			<-reset
			return nil
		}
		d.mu.Lock()
	case n(echoFault) == 0:
		err = &driver.Error{Call: "cuEventSynchronize", Result: []driver.Result{driver.ErrInvalidValue, driver.ErrIllegalAddress}[n(2)]}
	case n(echoLate) == 0:
		takes = 2 * echoMaxWait
	}
	d.mu.Unlock()
	time.Sleep(takes)
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.stream[e]
	if c := d.copies[s]; c != nil && err == nil {
		c.copy(d.kinds)
	}
	delete(d.copies, s)
	d.wave.Swap(newWave()).cancel()
	return err
}

// hang has the watchdog find that the batch which is waited for has had its time; it reports false if the session has ended anyway.
func (d *echo) hang(e driver.Event) bool {
	s := d.engine.devices[0].session.Load()
	if s == nil {
		return false
	}
	for _, w := range s.workers {
		if w.done != e {
			continue
		}
		w.current.Load().deadline = time.Now()
		w.bark()
		w.bark()
		return true
	}
	return false
}

// A row of an echo's begins and ends with its number, as its result does.
func echoRow(row []byte, number uint64) {
	binary.LittleEndian.PutUint64(row, number)
	binary.LittleEndian.PutUint64(row[len(row)-8:], number)
}

// copy makes the results of a batch, whose kind its sizes tell.
func (c *echoed) copy(kinds []*Kind) {
	for _, k := range kinds {
		n := len(c.from) / k.input
		if n*k.input != len(c.from) || k.statuses(n)+n*k.output != len(c.to) {
			continue
		}
		for i := range n {
			from, to := row(c.from, k.input, i), row(c.to[k.statuses(n):], k.output, i)
			copy(to[:8], from)
			copy(to[k.output-8:], from[k.input-8:])
		}
	}
}

// echoCaller is one of many who use an engine in every way that they may.
type echoCaller struct {
	t      *testing.T
	engine *Engine
	device *echo
	r      *rand.Rand
	number uint64 // of the latest row; no other caller has the same
}

// call reserves rows and does something with them; it returns what came of it.
func (c *echoCaller) call() error {
	k := c.device.kinds[c.r.IntN(len(c.device.kinds))]
	ticket, err := c.engine.Reserve(k, 1+c.r.IntN(3))
	if err != nil {
		return err
	}
	defer ticket.Release()
	if c.r.IntN(50) == 0 {
		return nil // given back unwritten
	}
	first := c.number + 1
	for i := range ticket.Rows() {
		c.number++
		echoRow(ticket.Input(i), c.number)
	}
	ticket.Submit()
	err = c.wait(&ticket)
	if c.r.IntN(4) == 0 && (err == nil || excused(err)) { // and asks once more
		if again := ticket.Wait(c.device.wave.Load()); again != err {
			c.t.Errorf("waited twice: %v, then %v", err, again)
		}
	}
	if err != nil {
		return err
	}
	for i := range ticket.Rows() {
		out, number := ticket.Output(i), first+uint64(i)
		if a, b := binary.LittleEndian.Uint64(out), binary.LittleEndian.Uint64(out[len(out)-8:]); a != number || b != number {
			c.t.Errorf("row %x: the result of %x and %x", number, a, b)
		}
	}
	return nil
}

// wait waits with one context or another.
func (c *echoCaller) wait(ticket *Ticket) error {
	switch c.r.IntN(4) {
	case 0:
		return ticket.Wait(context.Background())
	case 1:
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errWave)
		return ticket.Wait(ctx)
	case 2:
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Duration(c.r.Int64N(int64(200*time.Microsecond))), errWave)
		defer cancel()
		return ticket.Wait(ctx)
	}
	return ticket.Wait(c.device.wave.Load())
}

// Whatever becomes of a batch and of its callers' contexts, each caller comes back, with his own result or an excuse; nobody touches memory that is
// another batch's or gone, and none is left unwiped.
func TestEveryCallerComesBack(t *testing.T) {
	for _, c := range []struct {
		name     string
		protect  bool
		capacity int
	}{{"memory that the race detector sees", false, 100}, {"memory that goes", true, 100}, {"small batches", true, 4}} {
		t.Run(c.name, func(t *testing.T) { comeBack(t, newEcho(c.protect), c.capacity) })
	}
}

func comeBack(t *testing.T, d *echo, capacity int) {
	const callers, calls = 100, 3000
	e, err := Open(Config{Driver: d, Sets: []int{653}, Workers: 2, Capacity: capacity, Buffers: 5, CopyExchanges: true, MaxWait: echoMaxWait, Hang: never,
		Backoff: time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	check(t, err)
	d.engine, d.kinds = e, []*Kind{kind(t, e, 653, Decaps), kind(t, e, 653, KeyGen), kind(t, e, 653, ServerExchange)}
	var work sync.WaitGroup
	var served, gone, given, refused atomic.Int64
	for i := range callers {
		work.Go(func() {
			c := &echoCaller{t: t, engine: e, device: d, r: rand.New(rand.NewPCG(*seed, uint64(3+i))), number: uint64(i) << 32}
			for served.Load() < calls && !t.Failed() {
				switch err := c.call(); err {
				case nil:
					served.Add(1)
				case errWave:
					gone.Add(1)
				case ErrLate, ErrFault:
					given.Add(1)
				case ErrBusy, ErrUnavailable:
					refused.Add(1)
					time.Sleep(time.Duration(c.r.Int64N(int64(time.Millisecond))))
				default:
					t.Error(err)
				}
			}
		})
	}
	back := make(chan struct{})
	go func() { work.Wait(); close(back) }()
	select {
	case <-back:
	case <-time.After(enough):
		stacks := make([]byte, 1<<20)
		t.Fatalf("gpu.seed %d: some callers do not come back:\n%s", *seed, stacks[:runtime.Stack(stacks, true)])
	}
	st := e.Stats()[0]
	check(t, e.Close())
	if unwiped, err := d.unwiped(); unwiped || err != nil {
		t.Errorf("memory that is not wiped: %v; %v", unwiped, err)
	}
	for range callers {
		if s := sleepers.Get().(*sleeper); len(s.alarm) != 0 {
			t.Error("whoever has this sleeper next wakes at once")
		}
	}
	t.Logf("gpu.seed %d: %d served, %d contexts ended, %d late or faulty, %d refused; %d batches late, %d faults, %d hangs, %d resets",
		*seed, served.Load(), gone.Load(), given.Load(), refused.Load(), st.Late, st.Faults, st.Hangs, st.Resets)
}
