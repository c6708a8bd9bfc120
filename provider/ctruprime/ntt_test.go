package ctruprime

import (
	"slices"
	"testing"
)

// toInts returns the first n coefficients.
func toInts[T ~int16 | ~int32](a []T, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = int(a[i])
	}
	return out
}

// newPoly returns a padded polynomial with coefficients from f.
func (p *parameters) newPoly(f func(i int) int) poly {
	a := make(poly, p.half)
	for i := range a[:p.n] {
		a[i] = int16(f(i))
	}
	return a
}

// checkProduct compares a*b by the transform with the schoolbook.
func checkProduct(t *testing.T, s *Scheme, a, b poly) {
	t.Helper()
	transform, product := make(spectrum, s.size), make(spectrum, s.size)
	s.forward(transform, a)
	for i, x := range transform {
		if x <= -5*modulus || x >= 5*modulus {
			t.Fatalf("value %d of the transform, %d, is out of range", i, x)
		}
	}
	s.multiply(product, transform, b)
	want := ringProduct(toInts(a, s.n), toInts(b, s.n))
	if got := toInts(product, s.n); !slices.Equal(got, want) {
		t.Fatalf("%v * %v: got %v, want %v", a, b, got, want)
	}
	for _, x := range product[s.n : 8*s.groups()] {
		if x != 0 {
			t.Fatal("the product's padding is not zero")
		}
	}
}

// operandKinds are the pairs of bounds that the scheme multiplies within.
func operandKinds(s *Scheme) map[string][2]int {
	q, q2 := int(s.q), 1<<s.d
	return map[string][2]int{
		"noise times R_q":         {q / 2, s.eta},
		"secret times ciphertext": {2*s.eta + 1, q2 / 2},
	}
}

func TestProductRandom(t *testing.T) {
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, _ *reference) {
		for _, bounds := range operandKinds(s) {
			for range 4 {
				a := s.newPoly(func(int) int { return r.within(bounds[0]) })
				b := s.newPoly(func(int) int { return r.within(bounds[1]) })
				checkProduct(t, s, a, b)
			}
		}
	})
}

// TestProductExtreme multiplies polynomials whose coefficients all have the
// largest absolute values: of equal signs, which takes one coefficient of the
// product to its bound, of alternating ones, and of random ones.
func TestProductExtreme(t *testing.T) {
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, _ *reference) {
		signs := []func(i int) int{
			func(int) int { return 1 },
			func(int) int { return -1 },
			func(i int) int { return 1 - i%2*2 },
			func(int) int { return 1 - r.below(2)*2 },
		}
		for _, bounds := range operandKinds(s) {
			for _, sa := range signs {
				for _, sb := range signs {
					a := s.newPoly(func(i int) int { return sa(i) * bounds[0] })
					b := s.newPoly(func(i int) int { return sb(i) * bounds[1] })
					checkProduct(t, s, a, b)
				}
			}
		}
	})
}

// TestTransformRoundTrip takes the largest inputs that the transforms allow
// through both, without a product in between.
func TestTransformRoundTrip(t *testing.T) {
	r := newRandom(t)
	for _, s := range allSchemes {
		for _, f := range []func(i int) int{
			func(int) int { return 1<<15 - 1 },
			func(int) int { return -1 << 15 },
			func(int) int { return r.within(1<<15 - 1) },
		} {
			in := make(poly, s.half) // the padding, too
			for i := range in {
				in[i] = int16(f(i))
			}
			x := make(spectrum, s.size)
			s.forward(x, in)
			for i := range x {
				x[i] = int32(residue(int64(x[i])))
			}
			s.inverse(x)
			for i := range x {
				want := 0
				if i < len(in) {
					want = int(in[i])
				}
				if int(x[i]) != want {
					t.Fatalf("%s: coefficient %d: got %d, want %d", s.name, i, x[i], want)
				}
			}
		}
	}
}

// TestInverseRange runs the inverse transform on values at the ends of its
// input range: its sums must not overflow. It is compared with one on values
// that are congruent and small.
func TestInverseRange(t *testing.T) {
	r := newRandom(t)
	const end = (modulus + 1) / 2
	for _, s := range allSchemes {
		for range 8 {
			x, y := make(spectrum, s.size), make(spectrum, s.size)
			same := r.below(2) == 0
			for i := range x {
				x[i] = end
				if !same && r.below(2) == 0 {
					x[i] = -end
				}
				// (Q+1)/2 and -(Q-1)/2 are congruent.
				y[i] = x[i] - modulus
				if x[i] < 0 {
					y[i] = x[i] + modulus
				}
			}
			s.inverse(x)
			s.inverse(y)
			for i := range x {
				if mulModQ(int64(x[i]), 1) != mulModQ(int64(y[i]), 1) {
					t.Fatalf("%s: coefficient %d: %d and %d are not congruent", s.name, i, x[i], y[i])
				}
				if x[i] < -end || x[i] > end {
					t.Fatalf("%s: coefficient %d, %d, is out of range", s.name, i, x[i])
				}
			}
		}
	}
}
