package kem

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/internal/bench/interleaved"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// must ends a test or a benchmark with an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// BenchmarkRatios measures the operations of CTRU-Prime-761 in each code that this processor runs, of the other sets in the best, of
// ML-KEM-768 and of X25519: in microseconds, and as multiples of circl's ML-KEM-768 encapsulation with a parsed key, the
// two in turns. It is for -benchtime 1x; with -count, benchstat says how far runs differ.
func BenchmarkRatios(b *testing.B) {
	all, err := MLKEM768()
	must(b, err)
	unit := all[0]
	curve, err := X25519()
	must(b, err)
	all = append(all[1:], curve...)
	for _, level := range ctruprime.Levels() {
		all = append(all, of(b, ctruprime.Scheme761(), level)...)
	}
	best := ctruprime.Levels()[len(ctruprime.Levels())-1]
	for _, s := range []*ctruprime.Scheme{ctruprime.Scheme653(), ctruprime.Scheme1277()} {
		all = append(all, of(b, s, best)...)
	}
	o := interleaved.Options{Rounds: 1, Turns: 200, Turn: 200 * time.Microsecond, Before: ClearRegisters()}
	for _, operation := range all {
		subject := operation.Subject()
		b.Run(subject.Name, func(b *testing.B) {
			r, err := interleaved.Measure(context.Background(), []interleaved.Subject{unit.Subject(), subject}, o)
			must(b, err)
			must(b, r[0].Err)
			must(b, r[1].Err)
			b.ReportMetric(0, "ns/op") // leaves it out
			b.ReportMetric(r[1].Times[0]/1e3, "us")
			b.ReportMetric(r[1].Times[0]/r[0].Times[0], "ratio")
		})
	}
}

func of(t testing.TB, s *ctruprime.Scheme, level ctruprime.Level) []Operation {
	t.Helper()
	all, err := Of(s, level)
	must(t, err)
	return all
}

// TestOperations: every operation works, has a name of its own, and its time is one.
func TestOperations(t *testing.T) {
	all, err := MLKEM768()
	must(t, err)
	curve, err := X25519()
	must(t, err)
	all = append(all, curve...)
	for _, level := range ctruprime.Levels() {
		all = append(all, of(t, ctruprime.Scheme653(), level)...)
	}
	for _, name := range []string{EncapsBytes, DecapsBytes, KeyGen} {
		batches, err := Batches(ctruprime.Scheme653(), name, []int{1, 3})
		must(t, err)
		all = append(all, batches...)
	}
	var subjects []interleaved.Subject
	var names []string
	for _, o := range all {
		subjects = append(subjects, o.Subject())
		names = append(names, o.Subject().Name)
	}
	results, err := interleaved.Measure(t.Context(), subjects, interleaved.Options{Rounds: 1, Turns: 1, Before: ClearRegisters()})
	must(t, err)
	for i, r := range results {
		if r.Err != nil || len(r.Times) != 1 || r.Times[0] <= 0 {
			t.Errorf("%s: %+v", names[i], r)
		}
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(all) {
		t.Errorf("%d operations with %d names", len(all), len(slices.Compact(names)))
	}
}

func TestUnknown(t *testing.T) {
	if _, err := Of(ctruprime.Scheme653(), ctruprime.AVX512+1); err == nil {
		t.Error("a level that there is not")
	}
	if _, err := Batches(ctruprime.Scheme653(), "Sign", []int{1}); err == nil {
		t.Error("an operation that there is not")
	}
}
