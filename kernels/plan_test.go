package kernels_test

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/kernels"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

var sets = []int{653, 761, 1277}

func newSet(t *testing.T, n int) *kernels.Set {
	t.Helper()
	s, err := kernels.NewSet(n)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The kernels' sizes are the scheme's.
func TestSizes(t *testing.T) {
	for n, s := range map[int]*ctruprime.Scheme{653: ctruprime.Scheme653(), 761: ctruprime.Scheme761(), 1277: ctruprime.Scheme1277()} {
		set := newSet(t, n)
		got := []int{set.N(), set.PublicKeySize(), set.SecretKeySize(), set.CiphertextSize(), kernels.SeedSize, kernels.SeedSize,
			set.InputSize(kernels.Encaps, false), set.OutputSize(kernels.Encaps), set.InputSize(kernels.Decaps, false), set.OutputSize(kernels.KeyGen)}
		want := []int{n, s.PublicKeySize(), s.PrivateKeySize(), s.CiphertextSize(), ctruprime.SeedSize, ctruprime.SharedKeySize,
			s.PublicKeySize() + s.EncapsulationSeedSize(), s.CiphertextSize() + s.SharedKeySize(), s.PrivateKeySize() + s.CiphertextSize(), s.PrivateKeySize()}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d: sizes %v, want %v", n, got, want)
		}
	}
}

// A plan that was made before is made again without an allocation.
func TestPlanAllocations(t *testing.T) {
	dev := kernels.Device{Multiprocessors: 132, Shared: 227 << 10}
	var p kernels.Plan
	plans := make(map[string]func() error)
	for _, n := range []int{1, 64, 1024, 1 << 15} {
		plans[fmt.Sprintf("P256 of %d", n)] = func() error { _, err := kernels.PlanP256(n, dev, kernels.P256DefaultShape); return err }
		for _, degree := range sets {
			set := newSet(t, degree)
			for _, op := range []kernels.Operation{kernels.Encaps, kernels.Decaps, kernels.KeyGen} {
				plans[fmt.Sprintf("%s of %d, %d", op, n, degree)] = func() error { return set.Plan(&p, op, n, dev, kernels.Options{}) }
			}
			for _, x := range []kernels.Exchange{kernels.ServerExchange, kernels.ClientFinish} {
				plans[fmt.Sprintf("%s of %d, %d", x, n, degree)] = func() error { return set.PlanExchange(&p, x, n, dev, kernels.ExchangeOptions{}) }
			}
		}
	}
	for name, plan := range plans {
		var err error
		if n := testing.AllocsPerRun(5, func() { err = plan() }); err != nil || n > 0 {
			t.Errorf("%s: %v, %v allocations", name, err, n)
		}
	}
}

// parameters returns the parameters of a PTX text's entries: "u64" or "u32" each.
func parameters(t *testing.T, m kernels.Module) map[string][]string {
	t.Helper()
	text, err := m.PTX()
	if err != nil {
		t.Fatal(err)
	}
	entries := make(map[string][]string)
	parameter := regexp.MustCompile(`\.param \.(u64|u32)`)
	for _, e := range regexp.MustCompile(`(?s)\.visible \.entry (\w+)\(([^)]*)\)`).FindAllSubmatch(text, -1) {
		list := []string{}
		for _, p := range parameter.FindAllSubmatch(e[2], -1) {
			list = append(list, string(p[1]))
		}
		entries[string(e[1])] = list
	}
	return entries
}

// every calls f with each plan for some batches and cards.
func every(t *testing.T, f func(p *kernels.Plan, o kernels.Options, set *kernels.Set)) {
	var p kernels.Plan
	for _, n := range sets {
		set := newSet(t, n)
		for _, op := range kernels.Operations() {
			for _, m := range append(kernels.Multiplications(), kernels.DefaultMultiplication) {
				for _, shape := range []kernels.Shape{kernels.DefaultShape, kernels.One, kernels.Split, kernels.SplitWarp} {
					for _, table := range []int{0, 1, 77} {
						for _, batch := range []int{1, 2, 3, 31, 33, 1000, 8192, 65_537, kernels.MaxBatch} {
							for _, device := range []kernels.Device{{Multiprocessors: 1}, {Multiprocessors: 4, Shared: 227 << 10}, {Multiprocessors: 132, Shared: 227 << 10}} {
								for _, matrix := range []bool{false, true} {
									o := kernels.Options{Multiplication: m, Shape: shape, Table: table, Matrix: matrix}
									err := set.Plan(&p, op, batch, device, o)
									other := m == kernels.NTT || m == kernels.Tiled
									impossible := table > map[kernels.Operation]int{kernels.Encaps: 1, kernels.Decaps: kernels.MaxBatch}[op] ||
										shape == kernels.One && (op == kernels.KeyGen || other) ||
										matrix && (op != kernels.Encaps || table != 1 || other || shape == kernels.One)
									if (err != nil) != impossible {
										t.Fatalf("%s %+v: %v", op, o, err)
									}
									if err == nil {
										f(&p, o, set)
									}
								}
							}
						}
					}
				}
			}
		}
	}
}

// checkArguments checks that a launch names an entry of its module, with arguments of the parameters' kinds, in buffers of so many bytes.
func checkArguments(t *testing.T, where string, l *kernels.Launch, modules map[kernels.Module]map[string][]string, sizes map[kernels.Buffer]int) {
	t.Helper()
	if modules[l.Module] == nil {
		modules[l.Module] = parameters(t, l.Module)
	}
	want, ok := modules[l.Module][l.Kernel]
	if !ok {
		t.Fatalf("%s: no entry %s in module %v", where, l.Kernel, l.Module)
	}
	var got []string
	for _, a := range l.Args() {
		if !a.Pointer {
			got = append(got, "u32")
			continue
		}
		got = append(got, "u64")
		if a.Offset < 0 || a.Offset >= sizes[a.Buffer] {
			t.Fatalf("%s: %s is given offset %d of a buffer %d of %d bytes", where, l.Kernel, a.Offset, a.Buffer, sizes[a.Buffer])
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s: %s is given %v, takes %v", where, l.Kernel, got, want)
	}
}

// Every launch of every plan names an entry of its module, with arguments of the parameters' kinds, in buffers of the plan.
func TestPlans(t *testing.T) {
	const maxThreads, maxShared = 1024, 227 << 10 // of a block, on the architectures from 8.0 on that have Tensor Cores for servers
	modules := make(map[kernels.Module]map[string][]string)
	used := make(map[string]bool)
	every(t, func(p *kernels.Plan, o kernels.Options, set *kernels.Set) {
		where := fmt.Sprintf("%d %s %s %s, batch %d", set.N(), p.Operation, p.Multiplication, p.Shape, p.Batch)
		if len(p.Launches) == 0 || p.InputSize != p.Batch*set.InputSize(p.Operation, o.Table > 0) || p.OutputSize != p.Batch*set.OutputSize(p.Operation) || p.StatusSize != 4*p.Batch {
			t.Fatalf("%s: sizes", where)
		}
		for _, l := range p.Launches {
			used[l.Kernel] = true
			if l.Grid[0] == 0 || l.Grid[1] == 0 || l.Grid[1] > 2 || l.Block == 0 || l.Block > maxThreads || l.Shared < 0 || l.Shared > maxShared {
				t.Fatalf("%s: %s has grid %v, block %d, %d bytes of shared memory", where, l.Kernel, l.Grid, l.Block, l.Shared)
			}
			checkArguments(t, where, &l, modules, map[kernels.Buffer]int{kernels.Input: p.InputSize, kernels.Output: p.OutputSize, kernels.Status: p.StatusSize,
				kernels.Scratch: p.ScratchSize, kernels.Table: o.Table, kernels.Index: o.Table})
		}
	})
	for m, entries := range modules {
		for name := range entries {
			if !used[name] {
				t.Errorf("no plan launches %s of module %v", name, m)
			}
		}
	}
}

func TestPlanErrors(t *testing.T) {
	set := newSet(t, 761)
	device := kernels.Device{Multiprocessors: 132}
	for name, c := range map[string]struct {
		op     kernels.Operation
		batch  int
		device kernels.Device
		o      kernels.Options
	}{
		"empty":          {kernels.Encaps, 0, device, kernels.Options{}},
		"too large":      {kernels.Encaps, kernels.MaxBatch + 1, device, kernels.Options{}},
		"no card":        {kernels.Encaps, 1, kernels.Device{}, kernels.Options{}},
		"two public":     {kernels.Encaps, 1, device, kernels.Options{Table: 2}},
		"keygen table":   {kernels.KeyGen, 1, device, kernels.Options{Table: 1}},
		"negative table": {kernels.Decaps, 1, device, kernels.Options{Table: -1}},
		"odd group":      {kernels.KeyGen, 1, device, kernels.Options{Group: 3}},
		"group of one":   {kernels.KeyGen, 1, device, kernels.Options{Group: 1}},
		"large group":    {kernels.KeyGen, 1, device, kernels.Options{Group: 1 << 20}},
		"four blocks":    {kernels.Encaps, 1, device, kernels.Options{Blocks: 4}},
		"no operation":   {kernels.Operation(9), 1, device, kernels.Options{}},
	} {
		var p kernels.Plan
		if err := set.Plan(&p, c.op, c.batch, c.device, c.o); err == nil || !strings.HasPrefix(err.Error(), "kernels: ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := kernels.NewSet(857); err == nil {
		t.Error("a set that does not exist")
	}
	if _, err := (kernels.Module{N: 761, Multiplication: kernels.Multiplication(9)}).PTX(); err == nil {
		t.Error("a module that does not exist")
	}
}

// An exchange's launches stay within its buffers, each half within its own part of the rows; every argument is of its parameter's kind.
func TestExchangePlans(t *testing.T) {
	modules := make(map[kernels.Module]map[string][]string)
	var p kernels.Plan
	for _, n := range sets {
		set := newSet(t, n)
		for _, x := range kernels.Exchanges() {
			if in, out := set.ExchangeInputSize(x), set.ExchangeOutputSize(x); in%16 != 0 || out%16 != 0 {
				t.Errorf("%d %s: rows of %d and %d bytes", n, x, in, out)
			}
			for _, shape := range append(kernels.X25519Shapes(), kernels.X25519DefaultShape) {
				for _, batch := range []int{1, 33, 8192, kernels.MaxExchanges} {
					if err := set.PlanExchange(&p, x, batch, kernels.Device{Multiprocessors: 132}, kernels.ExchangeOptions{X25519: shape}); err != nil {
						t.Fatal(err)
					}
					if p.InputSize != batch*set.ExchangeInputSize(x) || p.OutputSize != batch*set.ExchangeOutputSize(x) || p.StatusSize != 8*batch || len(p.Beside) != 1 ||
						p.InputSize > math.MaxInt32 || p.OutputSize > math.MaxInt32 || p.ScratchSize > math.MaxInt32 {
						t.Fatalf("%d %s of %d: %+v", n, x, batch, p)
					}
					where := fmt.Sprintf("%d %s of %d", n, x, batch)
					for _, l := range slices.Concat(p.Launches, p.Beside) {
						checkArguments(t, where, &l, modules, map[kernels.Buffer]int{kernels.Input: p.InputSize, kernels.Output: p.OutputSize, kernels.Status: p.StatusSize,
							kernels.Scratch: p.ScratchSize})
					}
				}
			}
		}
	}
}

// Rows that do not lie where they are said to are refused, and so is an exchange that there is not.
func TestPlacesRefused(t *testing.T) {
	set := newSet(t, 761)
	device := kernels.Device{Multiprocessors: 132}
	var p kernels.Plan
	for _, o := range []kernels.Options{
		{Input: kernels.Place{Offset: 1, Stride: set.InputSize(kernels.Encaps, false)}},
		{Input: kernels.Place{Offset: -1, Stride: 4096}},
		{Output: kernels.Place{Stride: set.OutputSize(kernels.Encaps) - 1}},
	} {
		if err := set.Plan(&p, kernels.Encaps, 3, device, o); err == nil || !strings.Contains(err.Error(), "do not lie at") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for want, err := range map[string]error{
		"Exchange(2)":    set.PlanExchange(&p, 2, 1, device, kernels.ExchangeOptions{}),
		"X25519Shape(7)": set.PlanExchange(&p, kernels.ClientFinish, 1, device, kernels.ExchangeOptions{X25519: 7}),
		"not 262145":     set.PlanExchange(&p, kernels.ServerExchange, kernels.MaxExchanges+1, device, kernels.ExchangeOptions{}),
		"not 0":          set.PlanExchange(&p, kernels.ClientFinish, 0, device, kernels.ExchangeOptions{}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
