//go:build !nogpu

package provider

import (
	"bytes"
	"context"
	"crypto/fips140"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ctrutls/ctrutls/gpu"
	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// A gpuEngine carries out requests on GPUs, each in one row of a batch. What the
// devices don't do, for whatever reason, it has the CPU do.
type gpuEngine struct {
	gpu   *gpu.Engine
	cpu   *cpuEngine
	log   *slog.Logger
	kinds [operations]map[*ctruprime.Scheme]*gpu.Kind
	every uint64 // results to a check; 0: none

	signs   bool
	several bool // there is more than one device

	maxWait  time.Duration
	standIns chan struct{} // has room for as many requests as the CPU takes on when batches are full

	results atomic.Uint64 // of devices

	full, unavailable, late, faulted atomic.Uint64
	checked, mismatches              atomic.Uint64
}

// newGPUEngine returns an engine that has yet to be opened.
func newGPUEngine(cpu *cpuEngine, log *slog.Logger) *gpuEngine {
	return &gpuEngine{cpu: cpu, log: log, maxWait: gpu.DefaultMaxWait, standIns: make(chan struct{}, max(runtime.GOMAXPROCS(0)/2, 1))}
}

// openGPU opens the devices that cfg names; cpu stands in for them.
func openGPU(cfg GPU, log *slog.Logger, cpu *cpuEngine) (offload, error) {
	if cfg.Schemes == nil {
		cfg.Schemes = schemes
	}
	e := newGPUEngine(cpu, log)
	e.signs = cfg.Sign && !fips140.Enabled()
	if cfg.MaxWait > 0 {
		e.maxWait = cfg.MaxWait
	}
	switch {
	case cfg.CheckEvery == 0:
		e.every = DefaultCheckEvery
	case cfg.CheckEvery > 0:
		e.every = uint64(cfg.CheckEvery)
	}
	c := gpu.Config{Library: cfg.Library, Devices: cfg.Devices, Workers: cfg.Workers, Capacity: cfg.Capacity, Buffers: cfg.Buffers, Chunk: cfg.Chunk,
		MaxWait: cfg.MaxWait, Hang: cfg.Hang, OpenTimeout: cfg.OpenTimeout, Backoff: cfg.Backoff, Logger: log}
	for _, s := range cfg.Schemes {
		n, err := degree(s)
		if err != nil {
			return nil, err
		}
		c.Sets = append(c.Sets, n)
		probes, err := probes(s, n)
		if err != nil {
			return nil, err
		}
		c.Probes = append(c.Probes, probes...)
	}
	if e.signs {
		probe, err := signingProbe()
		if err != nil {
			return nil, fmt.Errorf("provider: %w", err)
		}
		c.Sign, c.Probes = true, append(c.Probes, probe)
	}
	if err := e.open(c, cfg.Schemes); err != nil {
		return nil, err
	}
	return e, nil
}

// open opens the devices for the parameter sets, and tells a machine without any
// from a fault.
func (e *gpuEngine) open(c gpu.Config, sets []*ctruprime.Scheme) (err error) {
	e.gpu, err = gpu.Open(c)
	switch {
	case errors.Is(err, driver.ErrNoDriver), errors.Is(err, driver.ErrNoDevice):
		return fmt.Errorf("%w: %w", errNoGPU, err)
	case errors.Is(err, gpu.ErrConfig):
		return fmt.Errorf("%w: %w", errConfig, err)
	case err != nil:
		return err
	}
	e.several = len(e.gpu.Stats()) > 1
	for op := range operations {
		e.kinds[op] = make(map[*ctruprime.Scheme]*gpu.Kind)
		for i, s := range sets {
			k, err := e.gpu.Kind(c.Sets[i], deviceOperations[op])
			if err != nil {
				return errors.Join(err, e.gpu.Close())
			}
			e.kinds[op][s] = k
		}
	}
	return nil
}

// degree returns the number in a parameter set's name.
func degree(s *ctruprime.Scheme) (n int, err error) {
	for i, known := range schemes {
		if s == known {
			return []int{653, 761, 1277}[i], nil
		}
	}
	return 0, fmt.Errorf("%w: Schemes holds an unknown parameter set; use ctruprime.Scheme653(), Scheme761() or Scheme1277()", errConfig)
}

func (*gpuEngine) name() string { return string(EngineGPU) }

func (e *gpuEngine) close() {
	if err := e.gpu.Close(); err != nil {
		e.log.Warn("provider: closing the GPUs", "error", err)
	}
	e.cpu.close()
}

func (e *gpuEngine) available() bool { return e.gpu.Available() }

func (e *gpuEngine) latency(r *request) (latency, bool) {
	if r.op == opSign {
		return latencyOf(e.gpu.SigningLatency()), e.signs
	}
	k := e.kind(r)
	if k == nil {
		return latency{}, false
	}
	return latencyOf(e.gpu.Latency(k)), true
}

func latencyOf(l gpu.Latency) latency {
	return latency{mean: l.Mean, base: l.Base, each: l.Row, flight: l.Flight}
}

func (e *gpuEngine) keyGroup() int {
	if e.gpu.Available() {
		return max(e.gpu.Capacity(), e.cpu.keyGroup())
	}
	return e.cpu.keyGroup()
}

func (e *gpuEngine) stats(st *Stats) {
	st.GPU = &GPUStats{Served: e.results.Load(), Full: e.full.Load(), Unavailable: e.unavailable.Load(), Late: e.late.Load(),
		Faulted: e.faulted.Load(), Checked: e.checked.Load(), Mismatches: e.mismatches.Load()}
	for _, d := range e.gpu.Stats() {
		st.GPU.Devices = append(st.GPU.Devices, DeviceStats(d))
	}
}

// serve implements engine. A batch of many passes through as many device batches
// as there is room for, and what finds none goes to the CPU.
func (e *gpuEngine) serve(ctx context.Context, batch []request) {
	if len(batch) == 1 {
		e.one(ctx, batch)
		return
	}
	f := flight{engine: e, ctx: ctx}
	defer f.abandon()
	for len(batch) > 0 {
		n := 1
		for n < len(batch) && batch[n].op == batch[0].op && batch[n].scheme == batch[0].scheme && batch[n].key == batch[0].key {
			n++
		}
		f.run(batch[:n])
		batch = batch[n:]
	}
	f.land(0)
	f.again()
	f.serveRest()
}

// one carries out a batch of one request.
func (e *gpuEngine) one(ctx context.Context, batch []request) {
	r := &batch[0]
	k := e.kind(r)
	if k == nil || !packed(r) {
		e.cpu.serve(ctx, batch)
		return
	}
	if ctx.Err() != nil {
		r.err = context.Cause(ctx)
		return
	}
	r.timing.begin()
	t, err := e.gpu.Reserve(k, 1)
	if err == gpu.ErrBusy {
		var token bool
		if t, token, err = e.await(ctx, k, 1, e.standIns); token {
			defer func() { <-e.standIns }()
		}
	}
	if err == nil {
		err = e.ride(ctx, r, &t)
	}
	if err == gpu.ErrFault && e.several {
		if t, none := e.gpu.Reserve(k, 1); none == nil {
			err = e.ride(ctx, r, &t) // on another
		}
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		r.err = context.Cause(ctx)
	default:
		e.countReason(err, 1)
		r.timing.leave()
		e.cpu.serve(ctx, batch)
	}
}

// ride carries out a request in a row that was reserved for it.
func (e *gpuEngine) ride(ctx context.Context, r *request, t *gpu.Ticket) error {
	defer t.Release()
	fill(t.Input(0), r)
	t.Submit()
	err := t.Wait(ctx)
	if err == nil {
		e.accept(r, t, 0)
		r.timing.ran(t.Times())
	}
	return err
}

// fullPatience is how long a request waits for room in a batch before the CPU is
// asked to stand in: the time of several batches.
const fullPatience = 5 * time.Millisecond

// await reserves up to n rows when all batches were full. Batches stay full while
// callers that have their results are given no processor to take them. If the CPU
// did what finds no room, those would be given one later still, and soon there would
// be no room at all. So whoever finds none waits. If there still is none after a
// while the error is ErrBusy, and the CPU stands in: for as many at a time as standIns
// takes, in which the caller then has a token; and for all after GPU.MaxWait.
func (e *gpuEngine) await(ctx context.Context, k *gpu.Kind, n int, standIns chan<- struct{}) (t gpu.Ticket, token bool, err error) {
	patience := time.NewTimer(min(fullPatience, e.maxWait))
	defer patience.Stop()
	var tokens chan<- struct{} // nil while there is patience left
	for {
		room := e.gpu.Room()
		if ctx.Err() != nil {
			return t, false, context.Cause(ctx)
		}
		if t, err = e.gpu.Reserve(k, n); err != gpu.ErrBusy {
			return t, false, err
		}
		select {
		case <-room:
		case <-patience.C:
			if tokens != nil || standIns == nil {
				return t, false, gpu.ErrBusy
			}
			tokens = standIns
			patience.Reset(e.maxWait)
		case tokens <- struct{}{}:
			return t, true, gpu.ErrBusy
		case <-ctx.Done(): // the next round returns
		}
	}
}

// packed says whether all that a row needs is there in bytes.
func packed(r *request) bool {
	switch r.op {
	case opEncapsulate, opServerExchange:
		return r.peer != nil
	case opDecapsulate, opClientFinish:
		return r.own != nil
	}
	return true
}

// accept takes a row's result over. What the device says is invalid the CPU looks
// at again, since its word goes to the peer, and so it does at one result in so
// many: where the two differ, the device is not used any more.
func (e *gpuEngine) accept(r *request, t *gpu.Ticket, i int) {
	output, invalid := t.Output(i), t.Status(i) != 0
	n := e.results.Add(1)
	if invalid || e.every != 0 && n%e.every == 0 {
		check := e.check
		if r.op == opSign {
			check = e.checkSignature
		}
		check(r, output, invalid, t.Device())
		return
	}
	take(r, output)
	r.device = true
}

// check computes a request on the CPU, whose result counts, and compares.
func (e *gpuEngine) check(r *request, output []byte, invalid bool, device int) {
	e.checked.Add(1)
	e.recompute(r)
	same := invalid == (r.err != nil)
	if same && !invalid {
		want := make([]byte, len(output))
		defer clear(want)
		spell(want, r)
		same = bytes.Equal(output, want)
	}
	if same {
		r.device = r.err == nil
		return
	}
	e.mismatches.Add(1)
	e.gpu.Refuse(device, fmt.Errorf("%s of %s", r.op, r.scheme.Name()))
}

// recompute has the CPU carry out a request after all.
func (e *gpuEngine) recompute(r *request) {
	piece := []request{*r}
	e.cpu.compute(piece)
	r.err = piece[0].err
}

func (e *gpuEngine) countReason(err error, n int) {
	switch err {
	case gpu.ErrBusy:
		e.full.Add(uint64(n))
	case gpu.ErrUnavailable:
		e.unavailable.Add(uint64(n))
	case gpu.ErrLate:
		e.late.Add(uint64(n))
	default:
		e.faulted.Add(uint64(n))
	}
}

// A flight is a batch of many requests on its way through the devices.
type flight struct {
	engine *gpuEngine
	ctx    context.Context
	legs   []leg
	rest   []*request // for the CPU

	returned [][]request // by a device that failed, for another
	last     bool        // what is returned now is for the CPU
}

// A leg is the requests that hold the rows of a ticket.
type leg struct {
	ticket gpu.Ticket
	batch  []request
}

// run sends requests of one kind, waiting for earlier ones where there is no room.
func (f *flight) run(batch []request) {
	e := f.engine
	k := e.kind(&batch[0])
	for len(batch) > 0 {
		n := 0 // that can go
		for k != nil && n < len(batch) && packed(&batch[n]) {
			n++
		}
		if n == 0 || f.ctx.Err() != nil {
			f.leave(batch[:1])
			batch = batch[1:]
			continue
		}
		t, err := e.gpu.Reserve(k, n)
		if err == gpu.ErrBusy && len(f.legs) == 0 {
			t, _, err = e.await(f.ctx, k, n, nil)
		}
		switch {
		case err == nil:
			f.send(t, batch[:t.Rows()])
			batch = batch[t.Rows():]
		case err == gpu.ErrBusy && len(f.legs) > 0:
			f.land(len(f.legs) - 1)
		case f.ctx.Err() != nil: // the next round leaves the rest
		default:
			n = min(n, ctruprime.MaxKeyGroup)
			e.countReason(err, n)
			f.leave(batch[:n])
			batch = batch[n:]
		}
	}
}

func (f *flight) send(t gpu.Ticket, batch []request) {
	f.legs = append(f.legs, leg{t, batch})
	ticket := &f.legs[len(f.legs)-1].ticket
	for i := range batch {
		fill(ticket.Input(i), &batch[i])
	}
	ticket.Submit()
}

// abandon gives back what a panic has left.
func (f *flight) abandon() {
	for i := range f.legs {
		f.legs[i].ticket.Release()
	}
}

func (f *flight) leave(batch []request) {
	for i := range batch {
		f.rest = append(f.rest, &batch[i])
	}
}

// land waits for the earliest legs until so many are left.
func (f *flight) land(left int) {
	for len(f.legs) > left {
		l := &f.legs[0]
		f.legs = f.legs[1:]
		f.landOne(l)
	}
}

func (f *flight) landOne(l *leg) {
	defer l.ticket.Release()
	err := l.ticket.Wait(f.ctx)
	switch {
	case err == nil:
		for i := range l.batch {
			f.engine.accept(&l.batch[i], &l.ticket, i)
		}
		return
	case err == gpu.ErrFault && f.engine.several && !f.last:
		f.returned = append(f.returned, l.batch)
		return
	case f.ctx.Err() == nil:
		f.engine.countReason(err, len(l.batch))
	}
	f.leave(l.batch)
}

// again sends what a device returned to the others.
func (f *flight) again() {
	f.last = true
	for _, batch := range f.returned {
		f.run(batch)
	}
	f.land(0)
}

// serveRest has the CPU carry out what the devices did not.
func (f *flight) serveRest() {
	if len(f.rest) == 0 {
		return
	}
	batch := make([]request, len(f.rest))
	for i, r := range f.rest {
		batch[i] = *r
	}
	f.engine.cpu.serve(f.ctx, batch)
	for i, r := range f.rest {
		r.err = batch[i].err
	}
}
