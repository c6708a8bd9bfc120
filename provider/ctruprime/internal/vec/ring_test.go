//go:build amd64 && !noasm

package vec

import (
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

var rings = []struct {
	n, q, small int
	ring        *Ring
}{
	{653, 4621, 3, NewRing(653, 4621, 3, 4801, 4993, 1153)},
	{761, 4591, 2, NewRing(761, 4591, 3, 3457, 4801, 1153)},
	{1277, 7879, 2, NewRing(1277, 7879, 5, 5441, 7681, 8641)},
}

func random(n, length, bound int) []int16 {
	p := make([]int16, length)
	for i := range p[:n] {
		p[i] = int16(rand.IntN(2*bound+1) - bound)
	}
	return p
}

func TestProduct(t *testing.T) {
	for _, c := range rings {
		r := c.ring
		a, b := random(c.n, r.Length(), c.q/2), random(c.n, r.Length(), c.small)
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
		b = random(c.n, r.Length(), c.q/2)
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
