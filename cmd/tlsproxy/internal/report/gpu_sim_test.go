//go:build sim && !nogpu

package report

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

// small is the plan of a card as the simulator can carry it out.
var small = cardPlan{set: 653, sets: []int{653}, operations: []kernels.Operation{kernels.Encaps, kernels.Decaps}, batches: []int{1, 2}, latency: 1, runs: 2, products: []int{1, 2}, tiled: 1, whole: []int{1}, rings: []int{1, 2}, chunk: 1, total: 1, rows: 1, keys: 1}

// onSimulator makes the simulator this machine's GPU.
func onSimulator(t *testing.T) *simctl.Sim {
	t.Helper()
	sim, path, err := simctl.Fresh(simctl.Library())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(driver.LibraryEnv, path)
	return sim
}

// TestSimulatorIsNotTimed: with a simulated GPU the report says so, and measures the CPU alone.
func TestSimulatorIsNotTimed(t *testing.T) {
	sim := onSimulator(t)
	o := options()
	o.Parts = []string{"gpu", "products"}
	r, err := Run(t.Context(), o)
	if err != nil || len(r.Failures()) > 0 {
		t.Fatalf("%v, %v", r.Failures(), err)
	}
	for _, s := range r.Sections {
		if len(s.Tables) > 0 || !strings.Contains(s.Missing, "is simulated") {
			t.Errorf("%+v", s)
		}
	}
	if n := sim.Stats(0).Launches; n > 0 {
		t.Errorf("%d launches", n)
	}
	found := findGPUs()
	if len(engines(found)) != 1 || slices.Max(concurrencies(found)) != 16 {
		t.Error("handshakes are measured with the simulated GPU")
	}
	if !slices.ContainsFunc(r.Facts, func(f Fact) bool { return f.Name == "GPU" && strings.HasPrefix(f.Value, simulatorName) }) ||
		!slices.ContainsFunc(r.Facts, func(f Fact) bool { return f.Name == "GPU driver" && strings.HasPrefix(f.Value, "CUDA ") }) {
		t.Errorf("%+v", r.Facts)
	}
}

// cardParts are the parts of a GPU with a small plan, as if the simulator were one.
func cardParts() []part {
	on := func(p part, do func(*card, context.Context) error) part {
		p.missing = always
		p.measure = func(ctx context.Context, m *measurement) error {
			return onCard(m, small, func(c *card) error { return do(c, ctx) })
		}
		return p
	}
	return []part{on(gpuPart, (*card).batches), on(productPart, (*card).products)}
}

// TestCard measures everything once, shows all of it, and leaves nothing behind.
func TestCard(t *testing.T) {
	sim := onSimulator(t)
	sim.SetDeviceCount(2)
	r, err := run(t.Context(), options(), cardParts(), time.Hour)
	if err != nil || len(r.Failures()) > 0 {
		t.Fatalf("%v, %v", r.Failures(), err)
	}
	rows := map[string]int{"gpu-batches": 4, "gpu-sets": 2, "gpu-streams": 6, "gpu-devices": 4, "gpu-core": 8, "products-alone": 5, "products-whole": 6}
	for i := range r.Sections {
		s := &r.Sections[i]
		for j := range s.Tables {
			table := &s.Tables[j]
			if len(table.Rows) != rows[table.ID] {
				t.Errorf("%s: %d rows, want %d", table.ID, len(table.Rows), rows[table.ID])
			}
			delete(rows, table.ID)
			for k := range table.Rows {
				row := &table.Rows[k]
				cells := s.cells(table, row)
				gap := slices.IndexFunc(cells, func(c cell) bool { return c.Text == none })
				if late := table.ID == "gpu-batches" && row.X > 1; gap >= 0 != late {
					t.Errorf("%s: %v", row.ID, cells)
				}
			}
			for k := range table.Charts {
				if _, ok := s.drawing(table, &table.Charts[k]); !ok {
					t.Errorf("nothing to draw in %s", table.Charts[k].ID)
				}
			}
		}
	}
	if len(rows) > 0 {
		t.Errorf("missing: %v", rows)
	}
	if stats := sim.Stats(0); stats.Leaks() || stats.Launches == 0 {
		t.Errorf("%+v", stats)
	}
	var page bytes.Buffer
	if err := r.WriteHTML(&page); err != nil || strings.Contains(page.String(), "NaN") {
		t.Errorf("%v", err)
	}
}

// TestCardFaults: what fails, and what is not as the CPU computes it, are rows with errors, the others are not, and everything is given
// back.
func TestCardFaults(t *testing.T) {
	sim := onSimulator(t)
	const outOfMemory = 2 // CUDA_ERROR_OUT_OF_MEMORY
	sim.FailCall(0, "cuMemAlloc", 0, 1, outOfMemory, false)
	sim.CorruptCopy(0, 0, simctl.Forever, 0, 1)
	memory, wrong := 0, 0
	for i, f := range cardFailures(t) {
		switch {
		case i == 0 && strings.HasPrefix(f, "gpu: Encaps/1: ") && strings.Contains(f, "OUT_OF_MEMORY"):
			memory++
		case strings.Contains(f, "rows are wrong"):
			wrong++
		default:
			t.Error(f)
		}
	}
	if want := 1 + 4 + 2; memory != 1 || wrong != want { // what comes back to the host
		t.Errorf("%d out of memory, %d wrong; want 1 and %d", memory, wrong, want)
	}
	if stats := sim.Stats(0); stats.Leaks() {
		t.Errorf("%+v", stats)
	}
}

// TestCardDies: nothing that comes after a fault of the whole context is a number, and the report is there.
func TestCardDies(t *testing.T) {
	sim := onSimulator(t)
	const illegalAddress = 700 // CUDA_ERROR_ILLEGAL_ADDRESS
	sim.FaultLaunch(0, 0, 1, illegalAddress)
	failures := cardFailures(t)
	if len(failures) != 1+4+2+6+4 || !strings.HasPrefix(failures[0], "gpu: driver: ") { // one core of the CPU goes on
		t.Errorf("%d failures: %q", len(failures), failures)
	}
}

// cardFailures measures batches.
func cardFailures(t *testing.T) []string {
	t.Helper()
	r, err := run(t.Context(), options(), cardParts()[:1], time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return r.Failures()
}
