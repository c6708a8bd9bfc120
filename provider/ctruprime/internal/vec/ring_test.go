//go:build amd64 && !noasm

package vec

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// product is the schoolbook product modulo x^n - x - 1.
func product(a, b []int16, n int) []int {
	s := make([]int, 2*n-1)
	for i, x := range a[:n] {
		for j, y := range b[:n] {
			s[i+j] += int(x) * int(y)
		}
	}
	for i := 2*n - 2; i >= n; i-- {
		s[i-n] += s[i]
		s[i-n+1] += s[i]
	}
	return s[:n]
}

type testRing struct {
	n, q, small int
	ring        *Ring
}

var rings = append(newRings(false), newRings(true)...)

func newRings(avx512 bool) []testRing {
	return []testRing{
		{653, 4621, 3, NewRing(653, 4621, 3, avx512, 4801, 4993, 1153)},
		{761, 4591, 2, NewRing(761, 4591, 3, avx512, 3457, 4801, 1153)},
		{1277, 7879, 2, NewRing(1277, 7879, 5, avx512, 5441, 7681, 8641)},
	}
}

// newSource returns a source of test input and logs its seed.
func newSource(t testing.TB) *rand.Rand {
	a, b := rand.Uint64(), rand.Uint64()
	t.Logf("seed: rand.NewPCG(%#x, %#x)", a, b)
	return rand.New(rand.NewPCG(a, b))
}

func random(source *rand.Rand, n, length, bound int) []int16 {
	p := make([]int16, length)
	for i := range p[:n] {
		p[i] = int16(source.IntN(2*bound+1) - bound)
	}
	return p
}

// TestProduct compares products with the schoolbook's.
func TestProduct(t *testing.T) {
	if !HasAVX2 {
		return // nothing here runs
	}
	source := newSource(t)
	for _, c := range rings {
		r := c.ring
		a, b := random(source, c.n, r.Length(), c.q/2), random(source, c.n, r.Length(), c.small)
		want := product(a, b, c.n)
		s := make([]Spectrum, 6)
		for i := range s {
			s[i] = make(Spectrum, 2*r.Words())
		}
		swapped := make([]int16, r.Length())
		r.Swap(swapped, b)
		for i := range 2 {
			r.ForwardKey(i, s[i+2], a)
			r.Forward(i, s[i], swapped)
			r.Multiply(i, s[i], s[i], s[i+2])
		}
		out := make([]int16, r.Length())
		r.FoldWord(out, s[0], s[1])
		for i, w := range want {
			if int16(w) != out[i] {
				t.Fatalf("n=%d coefficient %d: got %d, want %d", c.n, i, out[i], int16(w))
			}
		}
		r.FoldQ(out, s[0], s[1])
		for i, w := range want {
			if (int(out[i])-w)%c.q != 0 {
				t.Fatalf("n=%d coefficient %d mod q: got %d, want %d", c.n, i, out[i], w)
			}
		}
		b = random(source, c.n, r.Length(), c.q/2)
		want = product(a, b, c.n)
		r.Swap(swapped, b)
		for i := range 3 {
			r.ForwardKey(i, s[i+3], a)
			r.Forward(i, s[i], swapped)
			r.Multiply(i, s[i], s[i], s[i+3])
		}
		r.FoldQ3(out, s[0], s[1], s[2])
		for i, w := range want {
			if (int(out[i])-w)%c.q != 0 {
				t.Fatalf("n=%d coefficient %d mod q: got %d, want %d", c.n, i, out[i], w)
			}
		}
	}
}

// BenchmarkRoutines runs the parts of a product, of one prime, and the rest.
func BenchmarkRoutines(b *testing.B) {
	source := newSource(b)
	for _, c := range rings {
		r := c.ring
		x := random(source, c.n, r.Length(), c.q/2)
		s, key := make(Spectrum, r.Words()), make(Spectrum, 2*r.Words())
		d := r.NewDivision()
		for _, part := range []struct {
			name string
			f    func()
		}{
			{"Forward", func() { r.Forward(0, s, x) }},
			{"ForwardKey", func() { r.ForwardKey(0, key, x) }},
			{"Multiply", func() { r.Multiply(0, s, s, key) }},
			{"FoldQ", func() { r.FoldQ(x, s, s) }},
			{"Centre", func() { r.Centre(x, x) }},
			{"Division", func() { d.Run(128) }},
		} {
			b.Run(fmt.Sprintf("%s/%d/avx512=%v", part.name, c.n, c.ring.vnni), func(b *testing.B) {
				for b.Loop() {
					part.f()
				}
			})
		}
	}
}

// TestDivisionGap divides by polynomials with so many leading zeros that delta
// just stays within the gap, and just does not; with a larger gap the result of
// the first is the same.
func TestDivisionGap(t *testing.T) {
	if !HasAVX2 {
		return // nothing here runs
	}
	const gap = 128
	source := newSource(t)
	for _, c := range rings {
		d, whole := c.ring.NewDivision(), c.ring.NewDivision()
		for _, zeros := range []int{0, 1, gap - 2, gap - 1, gap, gap + 1, c.n - 1} {
			for i := range c.n {
				x := int16(0)
				switch {
				case i == zeros:
					x = 1
				case i > zeros:
					x = int16(source.IntN(2*c.small+1) - c.small)
				}
				d.G[i], whole.G[i] = x, x
			}
			for _, x := range []*Division{d, whole} {
				x.F[0], x.F[c.n-1], x.F[c.n], x.R[0] = 1, -1, -1, 1
			}
			if !whole.Run(2 * c.n) {
				t.Errorf("n = %d, %d leading zeros: delta is beyond 2n", c.n, zeros)
			}
			if got, want := d.Run(gap), zeros < gap; got != want {
				t.Errorf("n = %d, %d leading zeros: within the gap: %v, want %v", c.n, zeros, got, want)
			} else if got && !sameInverse(c.q, d, whole, c.n) {
				t.Errorf("n = %d, %d leading zeros: the results differ", c.n, zeros)
			}
			d.Wipe()
			whole.Wipe()
		}
	}
}

// sameInverse compares V/F modulo q.
func sameInverse(q int, a, b *Division, n int) bool {
	if int(a.F[0])%q == 0 {
		return false
	}
	for i := range n + 1 {
		if (int(a.V[i])*int(b.F[0])-int(b.V[i])*int(a.F[0]))%q != 0 {
			return false
		}
	}
	return true
}
