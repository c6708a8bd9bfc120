//go:build sim

package gpu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// enough is how long a test waits for what is bound to happen.
const enough = time.Minute

// eventually waits until done, and fails by what has not come if it never is.
func eventually(t *testing.T, done func() bool, missing func() string) {
	t.Helper()
	for until := time.Now().Add(enough); !done(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(until) {
			t.Fatal(missing())
		}
	}
}

// awaitRows waits until n rows are in batches that have not ended.
func awaitRows(t *testing.T, e *Engine, n int) {
	t.Helper()
	var now int
	eventually(t, func() bool { now = e.Stats()[0].InFlight; return now == n }, func() string {
		return fmt.Sprintf("%d rows are in flight, want %d", now, n)
	})
}

// awaitRunning waits until a worker runs a batch.
func awaitRunning(t *testing.T, e *Engine) {
	t.Helper()
	s := e.devices[0].session.Load()
	eventually(t, func() bool {
		return slices.ContainsFunc(s.workers, func(w *worker) bool { return w.current.Load() != nil })
	}, func() string { return "no batch runs" })
}

// While a batch runs, all that comes gathers in the next ones, and everybody gets his own result.
func TestBatches(t *testing.T) {
	sim, cfg := simulated(t)
	const rows, capacity = 60, 16
	cfg.Capacity, cfg.Buffers = capacity, 8
	e := open(t, cfg)
	k := kind(t, e, 653, Encaps)
	g := newGenerator()
	inputs, wants := make([][]byte, rows), make([][]byte, rows)
	for i := range rows {
		inputs[i], wants[i] = g.row(t, 653, Encaps)
	}
	sim.Hold(0, true)
	var wg sync.WaitGroup
	send := func(i int) {
		wg.Go(func() {
			got, status, err := do(context.Background(), e, k, inputs[i])
			if err != nil || status != 0 || !bytes.Equal(got, wants[i]) {
				t.Errorf("row %d: status %d, %v; right: %v", i, status, err, bytes.Equal(got, wants[i]))
			}
		})
	}
	send(0)
	awaitRunning(t, e) // the worker has gone with one: a batch of 1
	for i := 1; i < rows; i++ {
		send(i)
	}
	awaitRows(t, e, rows)
	sim.Hold(0, false)
	wg.Wait()
	const batches = 1 + (rows-1+capacity-1)/capacity
	if st := e.Stats()[0]; st.Batches != batches || st.Rows != rows {
		t.Errorf("%d rows in %d batches, want %d in %d", st.Rows, st.Batches, rows, batches)
	}
}

// A caller that goes leaves the others' results alone, whether its batch waits or runs, and its row is wiped.
func TestCallersLeave(t *testing.T) {
	sim, cfg := simulated(t)
	e := open(t, cfg)
	g := newGenerator()
	for _, op := range Operations() {
		k := kind(t, e, 653, op)
		sim.Hold(0, true)
		running, wantRunning := g.row(t, 653, op)
		first := reserve(t, e, k, running)
		awaitRunning(t, e)

		const callers = 4
		var waiting [callers]Ticket
		var wants [callers][]byte
		for i := range callers {
			var input []byte
			input, wants[i] = g.row(t, 653, op)
			waiting[i] = reserve(t, e, k, input)
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		for _, i := range []int{1, 3} {
			if err := waiting[i].Wait(ctx); !errors.Is(err, gone) {
				t.Errorf("%v, want the context's cause", err)
			}
			waiting[i].Release()
		}
		if op == Encaps { // the running one goes too
			if err := first.Wait(ctx); !errors.Is(err, gone) {
				t.Errorf("%v, want the context's cause", err)
			}
			first.Release()
		}
		sim.Hold(0, false)
		if op != Encaps {
			finish(t, first, wantRunning)
		}
		for _, i := range []int{0, 2} {
			finish(t, waiting[i], wants[i])
		}
	}
	awaitIdle(t, e)
	s := e.devices[0].session.Load()
	for _, b := range s.free {
		if !bytes.Equal(b.memory, make([]byte, len(b.memory))) {
			t.Error("pinned memory is not wiped")
		}
	}
}

// reserve submits a row.
func reserve(t *testing.T, e *Engine, k *Kind, input []byte) Ticket {
	t.Helper()
	ticket, err := e.Reserve(k, 1)
	check(t, err)
	copy(ticket.Input(0), input)
	ticket.Submit()
	return ticket
}

// finish waits for a row's result.
func finish(t *testing.T, ticket Ticket, want []byte) {
	t.Helper()
	defer ticket.Release()
	if err := ticket.Wait(context.Background()); err != nil {
		t.Error(err)
	} else if ticket.Status(0) != 0 || !bytes.Equal(ticket.Output(0), want) {
		t.Errorf("a wrong result, status %d", ticket.Status(0))
	}
}

// awaitIdle waits until all buffers are back.
func awaitIdle(t *testing.T, e *Engine) {
	t.Helper()
	s := e.devices[0].session.Load()
	var n int
	eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		n = len(s.free)
		return n == len(s.buffers)
	}, func() string { return fmt.Sprintf("%d of %d buffers are back", n, len(s.buffers)) })
}

// A caller that reserves and is slow to write holds its batch, and one that gives up without writing does not.
func TestSlowWriter(t *testing.T) {
	_, cfg := simulated(t)
	e := open(t, cfg)
	k := kind(t, e, 653, Encaps)
	g := newGenerator()
	slow, err := e.Reserve(k, 1)
	check(t, err)
	never, err := e.Reserve(k, 2)
	check(t, err)
	input, want := g.row(t, 653, Encaps)
	quick := reserve(t, e, k, input)
	never.Release()
	select {
	case <-quick.batch.done:
		t.Error("the batch ran before its rows were written")
	default:
	}
	input, wantSlow := g.row(t, 653, Encaps)
	copy(slow.Input(0), input)
	slow.Submit()
	finish(t, slow, wantSlow)
	finish(t, quick, want)
	awaitIdle(t, e)
}

// Where all buffers are taken, or all but one by the same kind, Reserve refuses at once.
func TestFull(t *testing.T) {
	sim, cfg := simulated(t)
	cfg.Capacity, cfg.Buffers = 2, 4
	e := open(t, cfg)
	g := newGenerator()
	encaps, decaps := kind(t, e, 653, Encaps), kind(t, e, 653, Decaps)
	sim.Hold(0, true)
	input, want := g.row(t, 653, Encaps)
	tickets := []Ticket{reserve(t, e, encaps, input)}
	awaitRunning(t, e)
	for range 4 {
		tickets = append(tickets, reserve(t, e, encaps, input))
	}
	if _, err := e.Reserve(encaps, 1); err != ErrBusy {
		t.Errorf("%v, want ErrBusy", err)
	}
	other, wantOther := g.row(t, 653, Decaps)
	last := reserve(t, e, decaps, other) // the last buffer is for another kind
	if _, err := e.Reserve(kind(t, e, 653, KeyGen), 1); err != ErrBusy {
		t.Errorf("%v, want ErrBusy", err)
	}
	sim.Hold(0, false)
	for _, ticket := range tickets {
		finish(t, ticket, want)
	}
	finish(t, last, wantOther)
	awaitIdle(t, e)
	if st := e.Stats()[0]; st.Batches != 4 {
		t.Errorf("%d batches, want 4", st.Batches)
	}
}

// While a batch runs, another is not started beside it before it has enough rows to be worth it.
func TestSmallBatchesWait(t *testing.T) {
	sim, cfg := simulated(t)
	cfg.Workers, cfg.Capacity = 2, 2*besideRows
	e := open(t, cfg)
	k := kind(t, e, 653, Encaps)
	input, want := newGenerator().row(t, 653, Encaps)
	s := e.devices[0].session.Load()
	sim.Hold(0, true)
	tickets := []Ticket{reserve(t, e, k, input)}
	awaitRunning(t, e)
	for range besideRows - 1 {
		tickets = append(tickets, reserve(t, e, k, input))
		if b, _ := s.tryTake(); b != nil {
			t.Fatalf("a batch of %d is started beside another", b.rows())
		}
	}
	tickets = append(tickets, reserve(t, e, k, input))
	eventually(t, func() bool { return s.runs.Load() == 2 }, func() string { return "the large batch is not started" })
	sim.Hold(0, false)
	for _, ticket := range tickets {
		finish(t, ticket, want)
	}
	awaitIdle(t, e)
	if n := s.runs.Load(); n != 0 {
		t.Errorf("%d batches pass for running", n)
	}
	if st := e.Stats()[0]; st.Batches != 2 || st.Rows != uint64(len(tickets)) {
		t.Errorf("%d rows in %d batches", st.Rows, st.Batches)
	}
}

// A full batch starts beside another however few rows it has.
func TestFullBatchStarts(t *testing.T) {
	sim, cfg := simulated(t)
	cfg.Workers, cfg.Capacity = 2, besideRows/2
	e := open(t, cfg)
	k := kind(t, e, 653, Encaps)
	input, want := newGenerator().row(t, 653, Encaps)
	s := e.devices[0].session.Load()
	sim.Hold(0, true)
	tickets := []Ticket{reserve(t, e, k, input)}
	awaitRunning(t, e)
	for range cfg.Capacity {
		tickets = append(tickets, reserve(t, e, k, input))
	}
	eventually(t, func() bool { return s.runs.Load() == 2 }, func() string {
		return "a full batch waits for the one that runs, beside an idle worker"
	})
	sim.Hold(0, false)
	for _, ticket := range tickets {
		finish(t, ticket, want)
	}
}

// Whoever waits for room is told of it when a batch's memory is back, and when the device has failed.
func TestRoom(t *testing.T) {
	sim, cfg := simulated(t)
	cfg.Capacity, cfg.Buffers, cfg.Backoff = 1, 2, never
	e := open(t, cfg)
	k := kind(t, e, 653, Encaps)
	input, want := newGenerator().row(t, 653, Encaps)
	made := func(room <-chan struct{}) bool {
		select {
		case <-room:
			return true
		default:
			return false
		}
	}
	sim.Hold(0, true)
	ticket := reserve(t, e, k, input)
	room := e.Room()
	if _, err := e.Reserve(k, 1); err != ErrBusy || made(room) {
		t.Errorf("%v, want ErrBusy; told of room: %v", err, made(room))
	}
	sim.Hold(0, false)
	finish(t, ticket, want)
	awaitIdle(t, e)
	<-room
	if made(e.Room()) {
		t.Error("there was room before")
	}
	room = e.Room()
	finish(t, reserve(t, e, k, input), want)
	<-room
	room = e.Room()
	e.devices[0].session.Load().fail(errHang)
	<-room
	if _, err := e.Reserve(k, 1); err != ErrUnavailable {
		t.Errorf("%v, want ErrUnavailable", err)
	}
}

// A reservation of several rows gets what the batch has left.
func TestSeveralRows(t *testing.T) {
	sim, cfg := simulated(t)
	cfg.Capacity = 4
	e := open(t, cfg)
	k := kind(t, e, 653, Encaps)
	g := newGenerator()
	sim.Hold(0, true)
	var tickets []Ticket
	var wants [][]byte
	left := 9
	for left > 0 {
		ticket, err := e.Reserve(k, left)
		check(t, err)
		for i := range ticket.Rows() {
			input, want := g.row(t, 653, Encaps)
			copy(ticket.Input(i), input)
			wants = append(wants, want)
		}
		ticket.Submit()
		tickets = append(tickets, ticket)
		left -= ticket.Rows()
	}
	sim.Hold(0, false)
	if len(tickets) != 3 || tickets[0].Rows() != 4 || tickets[2].Rows() != 1 {
		t.Fatalf("%d tickets", len(tickets))
	}
	next := 0
	for _, ticket := range tickets {
		check(t, ticket.Wait(t.Context()))
		for i := range ticket.Rows() {
			if !bytes.Equal(ticket.Output(i), wants[next]) {
				t.Errorf("row %d is wrong", next)
			}
			next++
		}
		ticket.Release()
	}
}

// Kinds take turns, however many batches of one wait.
func TestTurns(t *testing.T) {
	sim, cfg := simulated(t)
	cfg.Capacity, cfg.Buffers = 1, 8
	e := open(t, cfg)
	g := newGenerator()
	encaps, decaps := kind(t, e, 653, Encaps), kind(t, e, 653, Decaps)
	crowd, wantCrowd := g.row(t, 653, Encaps)
	single, wantSingle := g.row(t, 653, Decaps)
	sim.Hold(0, true)
	var tickets []Ticket
	for range 5 {
		tickets = append(tickets, reserve(t, e, encaps, crowd))
	}
	awaitRows(t, e, 5)
	one := reserve(t, e, decaps, single)
	// Of the crowd one batch runs; then it is the other kind's turn, after at most one more.
	s := e.devices[0].session.Load()
	var order []*Kind
	s.mu.Lock()
	turn := s.turn
	for range 2 {
		for i := range s.queues {
			at := (turn + i) % len(s.queues)
			if len(s.queues[at].waiting) > 0 {
				order = append(order, e.kinds[at])
				turn = at + 1
				break
			}
		}
	}
	s.mu.Unlock()
	if len(order) != 2 || (order[0] != decaps && order[1] != decaps) {
		t.Errorf("the next batches are of %v", order)
	}
	sim.Hold(0, false)
	finish(t, one, wantSingle)
	for _, ticket := range tickets {
		finish(t, ticket, wantCrowd)
	}
}

// Close ends what is in flight well; then Reserve refuses.
func TestClose(t *testing.T) {
	sim, cfg := simulated(t)
	cfg.Workers = 2
	e := open(t, cfg)
	k := kind(t, e, 653, Encaps)
	g := newGenerator()
	sim.Hold(0, true)
	var tickets []Ticket
	var wants [][]byte
	for range 12 {
		input, want := g.row(t, 653, Encaps)
		tickets, wants = append(tickets, reserve(t, e, k, input)), append(wants, want)
	}
	closed := make(chan error)
	go func() { closed <- e.Close() }()
	for e.Available() {
		time.Sleep(100 * time.Microsecond)
	}
	if _, err := e.Reserve(k, 1); err != ErrUnavailable {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	sim.Hold(0, false)
	for i, ticket := range tickets {
		select {
		case err := <-closed:
			t.Fatalf("closed (%v) before its callers have left", err)
		default:
		}
		finish(t, ticket, wants[i])
	}
	check(t, <-closed)
}

// After a batch neither the device nor pinned memory holds its rows.
func TestWiped(t *testing.T) {
	_, cfg := simulated(t)
	cfg.Sets = []int{653, 761}
	e := open(t, cfg)
	g := newGenerator()
	for _, n := range cfg.Sets {
		for _, op := range Operations() {
			k := kind(t, e, n, op)
			input, want := g.row(t, n, op)
			finish(t, reserve(t, e, k, input), want)
		}
	}
	awaitIdle(t, e)
	s := e.devices[0].session.Load()
	for _, b := range s.buffers {
		if !bytes.Equal(b.memory, make([]byte, len(b.memory))) {
			t.Error("pinned memory is not wiped")
		}
	}
	err, _ := within(enough, func() error {
		memory := make([]byte, s.workers[0].size)
		w := s.workers[0]
		err := errors.Join(s.api.CtxSetCurrent(s.context), s.api.CopyToHost(memory, w.memory, w.stream), s.api.StreamSynchronize(w.stream))
		if !bytes.Equal(memory, make([]byte, len(memory))) {
			t.Error("the device's memory is not wiped")
		}
		return err
	})
	check(t, err)
}
