//go:build !nogpu

package report

import (
	"slices"
	"testing"

	"github.com/ctrutls/ctrutls/kernels"
)

// TestPlan: all that is measured on a card can be planned on a large one and on a small one, and repeats its rows evenly.
func TestPlan(t *testing.T) {
	newSet := func(n int) *kernels.Set {
		set, err := kernels.NewSet(n)
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	for _, device := range []kernels.Device{{Multiprocessors: 132, Shared: 227 << 10}, {Multiprocessors: 20, Shared: 99 << 10}} {
		possible := func(op kernels.Operation, n int, o kernels.Options) {
			t.Helper()
			var p kernels.Plan
			if err := newSet(plan.set).Plan(&p, op, n, device, o); err != nil {
				t.Errorf("%s of %d, %+v: %v", op, n, o, err)
			}
		}
		for _, op := range plan.operations {
			for _, size := range plan.sets {
				var p kernels.Plan
				if err := newSet(size).Plan(&p, op, slices.Max(plan.batches), device, kernels.Options{Table: tableOf(op)}); err != nil {
					t.Errorf("%s of CTRU-Prime-%d: %v", op, size, err)
				}
			}
			for _, n := range append(slices.Clone(plan.batches), plan.chunk) {
				possible(op, n, kernels.Options{Table: tableOf(op)})
			}
			for _, n := range plan.whole {
				for _, m := range kernels.Multiplications() {
					possible(op, n, kernels.Options{Multiplication: m, Table: tableOf(op)})
				}
			}
		}
		for _, n := range plan.products {
			for _, m := range kernels.Multiplications() {
				if i, err := productLaunch(newSet(plan.set), n, device, kernels.Options{Multiplication: m, Shape: kernels.Split}); err != nil || i < 0 {
					t.Errorf("%d by %s: %d, %v", n, m, i, err)
				}
			}
		}
	}
	if plan.latency > plan.rows || plan.chunk%plan.rows != 0 || plan.total < plan.chunk || !slices.Contains(plan.rings, 1) {
		t.Errorf("%+v", plan)
	}
}

func tableOf(op kernels.Operation) int {
	if op == kernels.Decaps {
		return plan.keys
	}
	return 0
}
