//go:build !nogpu

package report

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/internal/bench"
	"github.com/ctrutls/ctrutls/internal/bench/interleaved"
	"github.com/ctrutls/ctrutls/internal/bench/kem"
	"github.com/ctrutls/ctrutls/kernels"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// A cardPlan is what is measured on a card.
type cardPlan struct {
	set        int   // of everything but
	sets       []int // what compares them
	operations []kernels.Operation
	batches    []int // sizes
	latency    int   // the largest of them that is timed from host to host
	runs       int   // of that
	products   []int // sizes of products
	tiled      int   // the largest of them by tiled products
	whole      []int // sizes of whole operations by each product
	rings      []int // batches of a stream that are under way at once
	chunk      int   // operations of each
	total      int   // operations of a stream
	rows       int   // distinct ones of a batch
	keys       int   // that decapsulations are done by
}

var plan = cardPlan{
	set: 761, sets: []int{653, 761, 1277}, operations: kernels.Operations(),
	batches: []int{1, 16, 64, 256, 1024, 4096, 16384, 65536}, latency: 4096, runs: bench.LatencyRuns,
	products: []int{1, 8, 64, 512, 1024, 4096, 8192, 16384, 65536}, tiled: 8192, whole: []int{64, 1024, 16384},
	rings: []int{1, 2, 3, 5}, chunk: 1 << 15, total: 1 << 20,
	rows: 4096, keys: 4096,
}

const gpuRounds = 5 // at most

var (
	gpuPart = part{id: "gpu", title: gpuTitle, about: gpuAbout, weight: 6, missing: (*gpus).missing,
		measure: func(ctx context.Context, m *measurement) error {
			return onCard(m, plan, func(c *card) error { return c.batches(ctx) })
		}}
	productPart = part{id: "products", title: productTitle, about: productAbout, weight: 3, missing: (*gpus).missing,
		measure: func(ctx context.Context, m *measurement) error {
			return onCard(m, plan, func(c *card) error { return c.products(ctx) })
		}}
)

// A card is a GPU with a stream, and what is measured on it.
type card struct {
	*bench.Card
	*measurement
	plan   cardPlan
	set    *kernels.Set
	stream driver.Stream
}

// onCard opens the first GPU for do.
func onCard(m *measurement, p cardPlan, do func(*card) error) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	set, err := kernels.NewSet(p.set)
	if err != nil {
		return err
	}
	open, err := bench.OpenCard("", 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.Close()) }()
	if err := open.API.PrimaryCtxSetFlags(0, driver.ScheduleSpin); err != nil { // latencies without the kernel's wake-up
		return err
	}
	stream, err := open.API.StreamCreate(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.API.StreamDestroy(stream)) }()
	return do(&card{open, m, p, set, stream})
}

// newCase makes n random operations and, for decapsulations, their keys.
func (c *card) newCase(op kernels.Operation, n int) (*bench.Case, error) {
	return c.newCaseOf(c.set, op, n)
}

func (c *card) newCaseOf(set *kernels.Set, op kernels.Operation, n int) (*bench.Case, error) {
	return bench.NewCase(set, op, n, bench.CaseOptions{Table: c.table(op, n)}, rand.Uint64())
}

// table is how many keys are resident.
func (c *card) table(op kernels.Operation, n int) int {
	if op != kernels.Decaps {
		return 0
	}
	return min(c.plan.keys, max(n, 1))
}

// perMicrosecond is a rate in millions a second.
func perMicrosecond(n int, d time.Duration) float64 { return float64(n) / micros(d) }

// try adds a round's values to a row, or the error, which ends the row and not the table.
func (r *Row) try(values []float64, err error) {
	switch {
	case r.Error != "":
	case err != nil:
		r.fail(err)
	default:
		r.add(values...)
	}
}

// rounds calls round until its time is over, at least once and at most `most` times.
func (m *measurement) rounds(ctx context.Context, most int, share time.Duration, round func() error) error {
	for begin, i := time.Now(), 0; i < most && (i == 0 || time.Since(begin) < share); i++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := round(); err != nil {
			return err
		}
	}
	return nil
}

// A probe measures a row once.
type probe struct {
	row     Row
	measure func() ([]float64, error)
}

// measureTable measures the probes in rounds, each once a round, until the time is over.
func (c *card) measureTable(ctx context.Context, share time.Duration, t Table, probes []probe) error {
	err := c.rounds(ctx, gpuRounds, share, func() error {
		for i := range probes {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if p := &probes[i]; p.row.Error == "" {
				values, err := p.measure()
				p.row.try(values, err)
			}
		}
		return nil
	})
	for _, p := range probes {
		if p.row.Error == "" && p.row.Values == nil {
			p.row.Error = "not measured"
			if err != nil {
				p.row.Error = inLine(err)
			}
		}
		t.Rows = append(t.Rows, p.row)
	}
	c.section.Tables = append(c.section.Tables, t)
	return err
}

// operationNames are as the CPU's tables have them.
var operationNames = map[kernels.Operation]string{kernels.KeyGen: "KeyGen", kernels.Encaps: "Encaps", kernels.Decaps: "Decaps"}

func (c *card) batches(ctx context.Context) error {
	c.step("by size")
	return errors.Join(c.bySize(ctx), c.bySet(ctx), c.byStreams(ctx), c.byDevices(ctx), c.besideCore(ctx))
}

func (c *card) bySize(ctx context.Context) error {
	t := Table{ID: "gpu-batches", Title: "Latency and rate by the size of the batch", Labels: []string{"operation", "batch"},
		Metrics: []Metric{{"on the device", "µs a batch", false}, {"rate on the device", "M/s", false}, {"host to host, median", "µs a batch", false}, {"host to host, p99", "µs a batch", false}},
		Charts: []Chart{
			{ID: "gpu-rate", Kind: Lines, Title: "Rate on the device", X: "operations a batch", Y: "million operations a second", Metric: 1, Base: Itself, LogY: true},
			{ID: "gpu-latency", Kind: Lines, Title: "From host to host", X: "operations a batch", Y: "µs a batch, median", Metric: 2, Base: Itself, LogY: true}}}
	var probes []probe
	for _, op := range c.plan.operations {
		for _, n := range c.plan.batches {
			k, err := c.newCase(op, min(n, c.plan.rows))
			if err != nil {
				return err
			}
			o := kernels.Options{Table: c.table(op, k.N)}
			name := operationNames[op]
			probes = append(probes, probe{Row{ID: fmt.Sprintf("%s/%d", name, n), Labels: []string{name, fmt.Sprint(n)}, Series: name, X: float64(n)}, func() ([]float64, error) {
				d, _, err := c.Resident(k, n, o, bench.AllLaunches, c.stream)
				if err != nil || n > c.plan.latency {
					return []float64{micros(d), perMicrosecond(n, d)}, err
				}
				middle, high, err := c.Latency(k, o, false, c.plan.runs, c.stream)
				return []float64{micros(d), perMicrosecond(n, d), micros(middle), micros(high)}, err
			}})
		}
	}
	return c.measureTable(ctx, c.time/4, t, probes)
}

// bySet compares the parameter sets.
func (c *card) bySet(ctx context.Context) error {
	c.step("parameter sets")
	n := slices.Max(c.plan.batches)
	t := Table{ID: "gpu-sets", Title: fmt.Sprintf("The parameter sets, batches of %d on the device", n), Labels: []string{"operation", "set"}, Metrics: []Metric{{"rate", "M/s", true}}, Bases: []string{setName(c.plan.set)}}
	var probes []probe
	for _, op := range c.plan.operations {
		for _, size := range c.plan.sets {
			set, err := kernels.NewSet(size)
			if err != nil {
				return err
			}
			k, err := c.newCaseOf(set, op, min(n, c.plan.rows))
			if err != nil {
				return err
			}
			o := kernels.Options{Table: c.table(op, k.N)}
			id := func(size int) string { return operationNames[op] + "/" + setName(size) }
			row := Row{ID: id(size), Labels: []string{operationNames[op], setName(size)}, Bases: []string{id(c.plan.set)}}
			probes = append(probes, probe{row, func() ([]float64, error) {
				d, _, err := c.Resident(k, n, o, bench.AllLaunches, c.stream)
				return []float64{perMicrosecond(n, d)}, err
			}})
		}
	}
	return c.measureTable(ctx, c.time/6, t, probes)
}

func setName(n int) string { return fmt.Sprintf("CTRU-Prime-%d", n) }

// byDevices tells what several devices at once gain; with one there is nothing to tell.
func (c *card) byDevices(ctx context.Context) error {
	if len(c.gpus.names) < 2 {
		return nil
	}
	c.step("several GPUs")
	t := Table{ID: "gpu-devices", Title: fmt.Sprintf("Several GPUs at once, batches of %d, host to host", c.plan.chunk), Labels: []string{"operation", "GPUs"},
		Metrics: []Metric{{"rate of all together", "M/s", true}}, Bases: []string{"one GPU"},
		Charts: []Chart{{ID: "gpu-devices", Kind: Lines, Title: "What more GPUs gain", X: "GPUs", Y: "one GPU = 1", Base: 0}}}
	var probes []probe
	for _, op := range c.plan.operations {
		k, err := c.newCase(op, min(c.plan.chunk, c.plan.rows))
		if err != nil {
			return err
		}
		o := bench.EndToEndOptions{Options: kernels.Options{Table: c.table(op, k.N)}, Chunk: c.plan.chunk, Rings: slices.Max(c.plan.rings)}
		var devices []int
		for n := 1; n <= len(c.gpus.names); n *= 2 {
			for len(devices) < n {
				devices = append(devices, len(devices))
			}
			used := slices.Clone(devices)
			id := func(n int) string { return fmt.Sprintf("%s/%d GPUs", operationNames[op], n) }
			row := Row{ID: id(n), Labels: []string{operationNames[op], fmt.Sprint(n)}, Bases: []string{id(1)}, Series: operationNames[op], X: float64(n)}
			probes = append(probes, probe{row, func() ([]float64, error) {
				rate, err := bench.EndToEndOn("", used, k, c.plan.total, o)
				return []float64{rate / 1e6}, err
			}})
		}
	}
	return c.measureTable(ctx, c.time/4, t, probes)
}

func (c *card) byStreams(ctx context.Context) error {
	c.step("streams")
	t := Table{ID: "gpu-streams", Title: fmt.Sprintf("A stream of batches of %d, host to host", c.plan.chunk), Labels: []string{"operation", "batches under way"},
		Metrics: []Metric{{"rate", "M/s", true}}, Bases: []string{"one batch under way", "copies alone"},
		Charts: []Chart{{ID: "gpu-streams", Kind: Lines, Title: "What overlapping batches gains", X: "batches under way", Y: "one batch under way = 1", Base: 0}}}
	most := slices.Max(c.plan.rings)
	var probes []probe
	for _, op := range c.plan.operations {
		k, err := c.newCase(op, min(c.plan.chunk, c.plan.rows))
		if err != nil {
			return err
		}
		name := operationNames[op]
		id := func(rings string) string { return name + "/" + rings + " under way" }
		copies := fmt.Sprintf("%d, copies alone", most)
		add := func(label string, rings int, series string, without bool) {
			o := bench.EndToEndOptions{Options: kernels.Options{Table: c.table(op, k.N)}, Chunk: c.plan.chunk, Rings: rings, Copies: without}
			row := Row{ID: id(label), Labels: []string{name, label}, Bases: []string{id("1"), id(copies)}, Series: series, X: float64(rings)}
			probes = append(probes, probe{row, func() ([]float64, error) {
				rate, err := c.EndToEnd(k, c.plan.total, o)
				return []float64{rate / 1e6}, err
			}})
		}
		for _, rings := range c.plan.rings {
			add(fmt.Sprint(rings), rings, name, false)
		}
		add(copies, most, "", true)
	}
	return c.measureTable(ctx, c.time/4, t, probes)
}

// onCore are the same operations on the CPU: one at a time, and in batches.
var onCore = map[kernels.Operation][2]string{
	kernels.KeyGen: {kem.KeyGen, kem.KeyGenBatch}, kernels.Encaps: {kem.EncapsBytes, kem.EncapsBatch}, kernels.Decaps: {kem.DecapsBytes, kem.DecapsBatch},
}

// besideCore compares the GPU with one core of the CPU.
func (c *card) besideCore(ctx context.Context) error {
	c.step("beside one core")
	t := Table{ID: "gpu-core", Title: "Beside one core of the CPU", Labels: []string{"operation", "by"}, Metrics: []Metric{{"rate", "M/s", true}}, Bases: []string{"one core, one operation at a time"}}
	scheme := ctruprime.Scheme761()
	var probes []probe
	levels := ctruprime.Levels()
	operations, err := kem.Of(scheme, levels[len(levels)-1])
	if err != nil {
		return err
	}
	for _, op := range c.plan.operations {
		k, err := c.newCase(op, min(c.plan.chunk, c.plan.rows))
		if err != nil {
			return err
		}
		name := operationNames[op]
		row := func(by string) Row {
			return Row{ID: name + "/" + by, Labels: []string{name, by}, Bases: []string{name + "/one core"}}
		}
		core := func(by, operation string) probe {
			i := slices.IndexFunc(operations, func(o kem.Operation) bool { return o.Name == operation })
			return probe{row(by), func() ([]float64, error) { return coreRate(ctx, operations[i]) }}
		}
		o := kernels.Options{Table: c.table(op, k.N)}
		probes = append(probes, core("one core", onCore[op][0]), core("one core, in batches", onCore[op][1]),
			probe{row(hostToHost), func() ([]float64, error) {
				rate, err := c.EndToEnd(k, c.plan.total, bench.EndToEndOptions{Options: o, Chunk: c.plan.chunk, Rings: slices.Max(c.plan.rings)})
				return []float64{rate / 1e6}, err
			}},
			probe{row("GPU, on the device"), func() ([]float64, error) {
				n := c.plan.batches[len(c.plan.batches)-1]
				d, _, err := c.Resident(k, n, o, bench.AllLaunches, c.stream)
				return []float64{perMicrosecond(n, d)}, err
			}})
	}
	return c.measureTable(ctx, c.time/4, t, probes)
}

// coreRate is an operation's rate on this thread, in millions a second.
func coreRate(ctx context.Context, o kem.Operation) ([]float64, error) {
	r, err := interleaved.Measure(ctx, []interleaved.Subject{o.Subject()}, interleaved.Options{Rounds: 1, Turns: 20, Turn: time.Millisecond})
	if err != nil {
		return nil, err
	}
	if r[0].Err != nil {
		return nil, r[0].Err
	}
	return []float64{1e3 / r[0].Times[0]}, nil
}

// products compares the ways to multiply.
func (c *card) products(ctx context.Context) error {
	c.step("products")
	metrics := []Metric{{"time", "µs a batch", true}, {"rate", "M/s", false}}
	charts := func(id, what string) []Chart {
		return []Chart{
			{ID: id + "-latency", Kind: Lines, Title: "Latency of " + what, X: "operations a batch", Y: "µs a batch", Metric: 0, Base: Itself, LogY: true},
			{ID: id + "-rate", Kind: Lines, Title: "Throughput of " + what, X: "operations a batch", Y: "millions a second", Metric: 1, Base: Itself, LogY: true}}
	}
	t := Table{ID: "products-alone", Title: "The product of an encapsulation", Labels: []string{"batch", "by"}, Metrics: metrics, Bases: []string{"ntt"}, Charts: charts("products", "products")}
	k, err := c.newCase(kernels.Encaps, c.plan.rows)
	if err != nil {
		return err
	}
	var probes []probe
	for _, n := range c.plan.products {
		for _, m := range c.multiplications(n) {
			o := kernels.Options{Multiplication: m, Shape: kernels.Split}
			launch, err := productLaunch(c.set, n, c.Device(), o)
			if err != nil {
				return err
			}
			id := func(m kernels.Multiplication) string { return fmt.Sprintf("%d/%s", n, m) }
			probes = append(probes, probe{Row{ID: id(m), Labels: []string{fmt.Sprint(n), m.String()}, Bases: []string{id(kernels.NTT)}, Series: m.String(), X: float64(n)}, func() ([]float64, error) {
				d, _, err := c.Resident(k, n, o, launch, c.stream)
				return []float64{micros(d), perMicrosecond(n, d)}, err
			}})
		}
	}
	return errors.Join(c.measureTable(ctx, c.time/2, t, probes), c.whole(ctx, metrics))
}

func (c *card) multiplications(n int) []kernels.Multiplication {
	return slices.DeleteFunc(kernels.Multiplications(), func(m kernels.Multiplication) bool { return m == kernels.Tiled && n > c.plan.tiled })
}

// productLaunch finds the launch that multiplies.
func productLaunch(set *kernels.Set, n int, device kernels.Device, o kernels.Options) (int, error) {
	var p kernels.Plan
	if err := set.Plan(&p, kernels.Encaps, n, device, o); err != nil {
		return 0, err
	}
	i := slices.IndexFunc(p.Launches, func(l kernels.Launch) bool { return strings.HasPrefix(l.Kernel, "encaps_product") })
	if i < 0 {
		return 0, fmt.Errorf("report: no launch of an encapsulation by %s multiplies", o.Multiplication)
	}
	return i, nil
}

// whole compares whole operations by each multiplication.
func (c *card) whole(ctx context.Context, metrics []Metric) error {
	c.step("whole operations")
	t := Table{ID: "products-whole", Title: "Whole operations by each product, on the device", Labels: []string{"operation", "batch", "by"}, Metrics: metrics, Bases: []string{"ntt"}}
	var probes []probe
	for _, op := range c.plan.operations {
		k, err := c.newCase(op, c.plan.rows)
		if err != nil {
			return err
		}
		for _, n := range c.plan.whole {
			for _, m := range c.multiplications(n) {
				o := kernels.Options{Multiplication: m, Table: c.table(op, k.N)}
				id := func(m kernels.Multiplication) string { return fmt.Sprintf("%s/%d/%s", operationNames[op], n, m) }
				probes = append(probes, probe{Row{ID: id(m), Labels: []string{operationNames[op], fmt.Sprint(n), m.String()}, Bases: []string{id(kernels.NTT)}}, func() ([]float64, error) {
					d, _, err := c.Resident(k, n, o, bench.AllLaunches, c.stream)
					return []float64{micros(d), perMicrosecond(n, d)}, err
				}})
			}
		}
	}
	return c.measureTable(ctx, c.time/2, t, probes)
}
