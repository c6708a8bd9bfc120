//go:build sim

package kernels_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/internal/bench"
	"github.com/ctrutls/ctrutls/kernels"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

var seed = flag.Uint64("kernels.seed", rand.Uint64(), "what the random cases, and the orders of threads, depend on")

// simulator opens the simulated card for a test, in a random order of threads.
func simulator(t *testing.T) (*bench.Card, driver.Stream, *simctl.Sim) {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	sim, path, err := simctl.Fresh(simctl.Library())
	check(t, err)
	sim.SetSeed(*seed)
	card, err := bench.OpenCard(path, 0)
	check(t, err)
	stream, err := card.API.StreamCreate(0)
	check(t, err)
	t.Logf("seed %d", *seed)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the simulator's last fault: %s", sim.LastFault())
			sim.Reset()
			return
		}
		check(t, card.API.StreamDestroy(stream))
		check(t, card.Close())
	})
	return card, stream, sim
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shapes lists the shapes that an operation has with a multiplication.
func shapes(op kernels.Operation, m kernels.Multiplication) []kernels.Shape {
	switch {
	case m == kernels.MMA && op != kernels.KeyGen:
		return []kernels.Shape{kernels.One, kernels.Split, kernels.SplitWarp}
	case m == kernels.MMA:
		return []kernels.Shape{kernels.Split, kernels.SplitWarp}
	default:
		return []kernels.Shape{kernels.Split}
	}
}

// Every set, operation, multiplication and shape gives what the CPU gives, for odd batches with invalid keys in them.
func TestKernels(t *testing.T) {
	for _, n := range []int{653, 761, 1277} {
		set, err := kernels.NewSet(n)
		check(t, err)
		for _, op := range kernels.Operations() {
			for _, m := range kernels.Multiplications() {
				for _, shape := range shapes(op, m) {
					t.Run(fmt.Sprintf("%d/%s/%s/%s", n, op, m, shape), func(t *testing.T) {
						card, stream, _ := simulator(t)
						for i, batch := range batches(n, op, m) {
							table := 0
							if i%2 == 1 {
								table = map[kernels.Operation]int{kernels.Encaps: 1, kernels.Decaps: 5}[op]
							}
							c, err := bench.NewCase(set, op, batch, bench.CaseOptions{Table: table, Invalid: true}, *seed+uint64(i))
							check(t, err)
							group := 0
							if op == kernels.KeyGen && i > 0 {
								group = 4
							}
							o := kernels.Options{Multiplication: m, Shape: shape, Group: group, Matrix: matrix(op, m, shape, table) && i%4 == 3}
							check(t, card.RunCase(c, o, stream, i%2 == 0))
						}
					})
				}
			}
		}
	}
}

// matrix says whether products can have the matrix form.
func matrix(op kernels.Operation, m kernels.Multiplication, shape kernels.Shape, table int) bool {
	return op == kernels.Encaps && m == kernels.MMA && shape != kernels.One && table == 1
}

// batches are the sizes to test: odd ones, and a prime, where warps and blocks end. A product of a whole
// block takes the simulator long: only the smallest set has 31 and 33 of those, and not its key generation with tiled ones, the slowest.
func batches(n int, op kernels.Operation, m kernels.Multiplication) []int {
	switch {
	case m == kernels.MMA:
		return []int{1, 2, 31, 33, 67}
	case n == 653 && (op != kernels.KeyGen || m == kernels.NTT):
		return []int{1, 2, 13, 31, 33}
	}
	return []int{1, 2, 13}
}

// Decapsulations in numbers that make the rejected keys beside the first products or, on a card whose blocks have too little shared
// memory for that, in a launch of their own, which takes a card of few multiprocessors here.
func TestManyDecaps(t *testing.T) {
	for _, n := range sets {
		for shared, kernel := range map[int]string{48 << 10: "decaps_decrypt_mma", 227 << 10: "decaps_open"} {
			t.Run(fmt.Sprintf("%d/%s", n, kernel), func(t *testing.T) {
				card, stream, _ := simulator(t)
				card.Info.Multiprocessors, card.Info.MaxSharedPerBlock = 1, shared
				for i, batch := range []int{97, 131} {
					c, err := bench.NewCase(newSet(t, n), kernels.Decaps, batch, bench.CaseOptions{Table: 5 * i, Invalid: true}, *seed+uint64(i))
					check(t, err)
					o := kernels.Options{Shape: kernels.Split, Table: 5 * i}
					var p kernels.Plan
					check(t, c.Set.Plan(&p, kernels.Decaps, batch, card.Device(), o))
					if got, want := p.Launches[0].Kernel, fmt.Sprintf("%s_%d", kernel, n); got != want {
						t.Fatalf("the first launch is %s, not %s", got, want)
					}
					check(t, card.RunCase(c, o, stream, i == 0))
				}
			})
		}
	}
}
