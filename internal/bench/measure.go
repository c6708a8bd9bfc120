package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels"
)

// AllLaunches, as the launch to measure, stands for the whole plan.
const AllLaunches = -1

// Resident returns the time that n operations take on the device, inputs and outputs staying there: the median of several runs,
// each long enough to measure. k's rows are repeated to fill the batch. With a launch's number only that one is timed, after all of
// them have run once: its time does not depend on the data.
func (c *Card) Resident(k *Case, n int, o kernels.Options, launch int, s driver.Stream) (d time.Duration, name string, err error) {
	b, err := c.NewBatch(k.Set, k.Operation, n, o, s)
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, b.Free()) }()
	if err := errors.Join(c.fill(b, k), b.Run(s)); err != nil {
		return 0, "", err
	}
	name = b.Plan.Shape.String()
	if launch != AllLaunches {
		b.Plan.Launches = b.Plan.Launches[launch : launch+1]
		name = b.Plan.Launches[0].Kernel
	}
	from, err := c.API.EventCreate(0)
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, c.API.EventDestroy(from)) }()
	to, err := c.API.EventCreate(0)
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, c.API.EventDestroy(to)) }()
	runs := func(times int) (time.Duration, error) {
		if err := c.API.EventRecord(from, s); err != nil {
			return 0, err
		}
		for range times {
			if err := b.Run(s); err != nil {
				return 0, err
			}
		}
		if err := errors.Join(c.API.EventRecord(to, s), c.API.EventSynchronize(to)); err != nil {
			return 0, err
		}
		return c.API.EventElapsed(from, to)
	}
	d, err = median(runs)
	return d, name, err
}

// median runs `runs` for about a millisecond at a time, several times, and returns the median time of one.
func median(runs func(times int) (time.Duration, error)) (time.Duration, error) {
	if _, err := runs(1); err != nil { // loads the code
		return 0, err
	}
	once, err := runs(2)
	if err != nil {
		return 0, err
	}
	times := min(max(int(2*time.Millisecond/max(once, 1)), 1), 200)
	var all []time.Duration
	for range 9 {
		d, err := runs(times)
		if err != nil {
			return 0, err
		}
		all = append(all, d/time.Duration(times))
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

// fill copies k's rows, repeated, to a batch's input, table and index.
func (c *Card) fill(b *Batch, k *Case) error {
	inputs := repeat(k.Input, b.Plan.InputSize)
	copies := []struct {
		to   kernels.Buffer
		data []byte
	}{{kernels.Input, inputs}, {kernels.Table, k.Table}, {kernels.Index, nil}}
	if len(k.Index) > 0 {
		copies[2].data = repeat(k.Index, 4*b.Plan.Batch)
	}
	for _, in := range copies {
		if len(in.data) == 0 {
			continue
		}
		if err := c.API.CopyToDevice(b.Buffers[in.to], in.data, 0); err != nil {
			return err
		}
	}
	return c.API.CtxSynchronize()
}

func repeat(rows []byte, size int) []byte {
	out := make([]byte, size)
	for at := 0; at < size; {
		at += copy(out[at:], rows)
	}
	return out
}

// EndToEndOptions say how a long stream of operations is cut up.
type EndToEndOptions struct {
	Options kernels.Options
	Chunk   int  // operations a copy and a batch
	Rings   int  // chunks under way at once
	Copies  bool // leave the kernels out
}

// EndToEnd returns the rate, in operations a second, at which rows pass from pinned host memory through the device and back:
// one stream copies in, two compute by turns, one copies out, and events keep the chunks' buffers apart. k has at least one chunk of
// rows; the first chunks' results are checked unless only copies are asked for.
func (c *Card) EndToEnd(k *Case, total int, o EndToEndOptions) (rate float64, err error) {
	e := endToEnd{card: c, kase: k, options: o}
	defer func() { err = errors.Join(err, e.free()) }()
	if err := e.prepare(); err != nil {
		return 0, err
	}
	chunks := chunksOf(total, o)
	var rates []float64
	for range 3 {
		d, err := e.run(chunks)
		if err != nil {
			return 0, err
		}
		rates = append(rates, float64(chunks*o.Chunk)/d.Seconds())
	}
	slices.Sort(rates)
	return rates[1], nil
}

type ring struct {
	batch              *Batch
	input, output      []byte // pinned
	status             []byte
	copied, done, free driver.Event
	used               bool
}

type endToEnd struct {
	card    *Card
	kase    *Case
	options EndToEndOptions
	rings   []ring
	streams []driver.Stream // copy in, compute, compute, copy out
}

// prepare allocates, passes a few chunks through and checks their results.
func (e *endToEnd) prepare() error {
	if err := e.allocate(); err != nil {
		return err
	}
	if _, err := e.run(2 * e.options.Rings); err != nil {
		return err
	}
	if e.options.Copies {
		return nil
	}
	return e.check()
}

func (e *endToEnd) allocate() error {
	api := e.card.API
	for range 4 {
		s, err := api.StreamCreate(0)
		if err != nil {
			return err
		}
		e.streams = append(e.streams, s)
	}
	for range e.options.Rings {
		b, err := e.card.NewBatch(e.kase.Set, e.kase.Operation, e.options.Chunk, e.options.Options, 0)
		if err != nil {
			return err
		}
		e.rings = append(e.rings, ring{batch: b})
		r := &e.rings[len(e.rings)-1]
		if err := e.card.fill(b, e.kase); err != nil {
			return err
		}
		for _, p := range []struct {
			to   *[]byte
			size int
		}{{&r.input, b.Plan.InputSize}, {&r.output, b.Plan.OutputSize}, {&r.status, b.Plan.StatusSize}} {
			if *p.to, err = api.HostAlloc(p.size); err != nil {
				return err
			}
		}
		copy(r.input, repeat(e.kase.Input, len(r.input)))
		for _, p := range []*driver.Event{&r.copied, &r.done, &r.free} {
			if *p, err = api.EventCreate(driver.EventNoTiming); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *endToEnd) free() error {
	api := e.card.API
	errs := []error{api.CtxSynchronize()}
	for i := range e.rings {
		r := &e.rings[i]
		errs = append(errs, r.batch.Free())
		for _, b := range [][]byte{r.input, r.output, r.status} {
			if b != nil {
				errs = append(errs, api.HostFree(b))
			}
		}
		for _, v := range []driver.Event{r.copied, r.done, r.free} {
			if v != 0 {
				errs = append(errs, api.EventDestroy(v))
			}
		}
	}
	for _, s := range e.streams {
		errs = append(errs, api.StreamDestroy(s))
	}
	return errors.Join(errs...)
}

// run passes chunks through the rings and returns the time from the first copy's start to the last one's end.
func (e *endToEnd) run(chunks int) (time.Duration, error) {
	start := time.Now()
	for i := range chunks {
		if err := e.enqueue(&e.rings[i%len(e.rings)], e.streams[1+i%2]); err != nil {
			return 0, err
		}
	}
	if err := e.card.API.CtxSynchronize(); err != nil {
		return 0, err
	}
	return time.Since(start), nil
}

func (e *endToEnd) enqueue(r *ring, compute driver.Stream) error {
	api, in, out := e.card.API, e.streams[0], e.streams[3]
	var errs [9]error
	if r.used { // the ring's input has been read, its output copied
		errs[0] = api.StreamWaitEvent(in, r.done)
	}
	errs[1] = api.CopyToDevice(r.batch.Buffers[kernels.Input], r.input, in)
	errs[2] = api.EventRecord(r.copied, in)
	errs[3] = api.StreamWaitEvent(compute, r.copied)
	if r.used {
		errs[4] = api.StreamWaitEvent(compute, r.free)
	}
	if !e.options.Copies {
		errs[5] = r.batch.Run(compute)
	}
	errs[6] = errors.Join(api.EventRecord(r.done, compute), api.StreamWaitEvent(out, r.done))
	errs[7] = api.CopyToHost(r.output, r.batch.Buffers[kernels.Output], out)
	errs[8] = errors.Join(api.CopyToHost(r.status, r.batch.Buffers[kernels.Status], out), api.EventRecord(r.free, out))
	r.used = true
	return errors.Join(errs[:]...)
}

// check compares the rings' results with the case's, which repeats.
func (e *endToEnd) check() error {
	for i := range e.rings {
		r := &e.rings[i]
		if e.options.Chunk%e.kase.N != 0 && e.kase.N%e.options.Chunk != 0 {
			return fmt.Errorf("bench: chunks of %d operations do not repeat a case of %d", e.options.Chunk, e.kase.N)
		}
		size := len(r.output) / e.options.Chunk
		for at := 0; at+e.kase.N <= e.options.Chunk; at += e.kase.N {
			if err := e.kase.Check(r.output[at*size:(at+e.kase.N)*size], r.status[4*at:4*(at+e.kase.N)]); err != nil {
				return fmt.Errorf("ring %d, operation %d: %w", i, at, err)
			}
		}
	}
	return nil
}

// LatencyRuns are enough for a 99th percentile.
const LatencyRuns = 300

// Latency returns the median and the 99th percentile, over so many runs, of the time from a batch in pinned host memory to its results there. If
// mapped, kernels read and write the host's memory themselves; if not, copies go before and after.
func (c *Card) Latency(k *Case, o kernels.Options, mapped bool, runs int, s driver.Stream) (middle, high time.Duration, err error) {
	b, err := c.NewBatch(k.Set, k.Operation, k.N, o, s)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, b.Free()) }()
	if err := c.fill(b, k); err != nil {
		return 0, 0, err
	}
	var pinned [3][]byte
	for i, size := range []int{b.Plan.InputSize, b.Plan.OutputSize, b.Plan.StatusSize} {
		if pinned[i], err = c.API.HostAlloc(size); err != nil {
			return 0, 0, err
		}
		defer func() { err = errors.Join(err, c.API.HostFree(pinned[i])) }()
	}
	copy(pinned[0], k.Input)
	buffers := b.Buffers
	if mapped {
		for i, to := range []kernels.Buffer{kernels.Input, kernels.Output, kernels.Status} {
			if buffers[to], err = c.API.HostDevicePtr(pinned[i]); err != nil {
				return 0, 0, err
			}
		}
	}
	once := func() error {
		if mapped {
			return errors.Join(c.Run(&b.Plan, &buffers, s), c.API.StreamSynchronize(s))
		}
		return errors.Join(c.API.CopyToDevice(buffers[kernels.Input], pinned[0], s), c.Run(&b.Plan, &buffers, s),
			c.API.CopyToHost(pinned[1], buffers[kernels.Output], s), c.API.CopyToHost(pinned[2], buffers[kernels.Status], s), c.API.StreamSynchronize(s))
	}
	var all []time.Duration
	warmUp := runs / 15
	for i := range warmUp + runs {
		start := time.Now()
		if err := once(); err != nil {
			return 0, 0, err
		}
		if i >= warmUp {
			all = append(all, time.Since(start))
		}
	}
	if err := k.Check(pinned[1], pinned[2]); err != nil {
		return 0, 0, err
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100], nil
}
