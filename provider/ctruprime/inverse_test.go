package ctruprime

import (
	"slices"
	"testing"
)

// checkInverse compares the inverse of a with the Euclidean algorithm's and
// with its definition.
func checkInverse(t *testing.T, s *Scheme, ref *reference, a poly) {
	t.Helper()
	inverse := make(poly, s.half)
	s.invertPoly(inverse, a, newDivision(&s.parameters))
	for i, x := range inverse {
		if x < -int16(s.q/2) || x > int16(s.q/2) || i >= s.n && x != 0 {
			t.Fatalf("coefficient %d, %d, is out of range", i, x)
		}
	}
	in, got := toInts(a, s.n), toInts(inverse, s.n)
	if want := ref.ringInverse(in); !slices.Equal(modAll(got, ref.q), want) {
		t.Fatalf("1/%v: got %v, want %v", a, got, want)
	}
	for i, x := range modAll(ringProduct(in, got), ref.q) {
		if i == 0 && x != 1 || i > 0 && x != 0 {
			t.Fatalf("1/%v: times itself has coefficient %d = %d", a, i, x)
		}
	}
}

func TestInverse(t *testing.T) {
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, ref *reference) {
		half := ref.q / 2
		for what, f := range map[string]func(i int) int{
			"R_q":       func(int) int { return r.within(half) },
			"secret":    func(i int) int { return 2*r.within(s.eta) + 1 - min(i, 1) },
			"sparse":    func(i int) int { return r.below(64) / 63 * half },
			"largest":   func(int) int { return half },
			"smallest":  func(int) int { return -half },
			"one":       func(i int) int { return 1 - min(i, 1) },
			"minus one": func(i int) int { return min(i, 1) - 1 },
			"x^(n-1)":   func(i int) int { return (i + 1) / s.n },
			"x":         func(i int) int { return 1 - min(max(i-1, 1-i), 1) },
		} {
			a := s.newPoly(f)
			if !slices.ContainsFunc(a, func(x int16) bool { return x != 0 }) {
				a[r.below(s.n)] = 1 // only a sparse one can be zero, hardly ever
			}
			t.Run(what, func(t *testing.T) { checkInverse(t, s, ref, a) })
		}
	})
}
