//go:build sim && !race

package gpu

import (
	"context"
	"testing"
)

// What a batch allocates does not depend on how many rows are in it: nothing is allocated for a row.
func TestAllocations(t *testing.T) {
	_, cfg := simulated(t)
	cfg.Capacity = 32
	e := open(t, cfg)
	k := kind(t, e, 653, Encaps)
	input, _ := newGenerator().row(t, 653, Encaps)
	tickets := make([]Ticket, cfg.Capacity)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	batch := func(rows int) float64 {
		return testing.AllocsPerRun(20, func() {
			for i := range rows {
				var err error
				if tickets[i], err = e.Reserve(k, 1); err != nil {
					t.Fatal(err)
				}
				copy(tickets[i].Input(0), input)
			}
			for i := range rows { // the batch starts with the last, so that there is one
				tickets[i].Submit()
			}
			for i := range rows {
				if err := tickets[i].Wait(ctx); err != nil {
					t.Fatal(err)
				}
			}
			for i := range rows {
				tickets[i].Release()
			}
		})
	}
	small, large := batch(2), batch(32)
	t.Logf("a batch of 2 takes %v allocations, one of 32 takes %v", small, large)
	if large > small+2 { // the runtime's own come and go
		t.Errorf("%v allocations for 32 rows, %v for 2", large, small)
	}
}
