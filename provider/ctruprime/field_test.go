package ctruprime

import (
	"math/bits"
	"testing"
)

// mulModQ returns a*b modulo Q for residues of any sign.
func mulModQ(a, b int64) int64 {
	return (a%modulus + modulus) % modulus * ((b%modulus + modulus) % modulus) % modulus
}

func TestFieldConstants(t *testing.T) {
	for d := 2; d*d <= modulus; d++ {
		if modulus%d == 0 {
			t.Fatalf("Q is a multiple of %d", d)
		}
	}
	q, inverse := uint64(modulus), uint64(modulusInverse)
	if q*inverse != 1 {
		t.Error("modulusInverse is not the inverse of Q modulo 2^64")
	}
	half := int64(1)
	for range leaves / 2 {
		half = mulModQ(half, rootOfUnity)
	}
	if half != modulus-1 {
		t.Error("rootOfUnity does not have order 512")
	}
	for _, s := range allSchemes {
		if s.size < 2*s.n-1 {
			t.Errorf("%s: a product of %d coefficients does not fit %d points", s.name, 2*s.n-1, s.size)
		}
		if uint16(uint64(s.q)*s.minusInverse) != 1<<16-1 {
			t.Errorf("%s: minusInverse is wrong", s.name)
		}
		if q := uint64(s.q); 2*(jumpSteps+1)*(q-1)*(q-1) >= 1<<32 || jumpSteps%2 != 0 {
			t.Errorf("%s: a jump of %d steps overflows", s.name, jumpSteps)
		}
	}
}

// TestProductBounds checks the bounds that the comments of the products state:
// each coefficient of a product is below Q/2 before it is folded, so that the
// transform is exact, and within the range of reduce and compress afterwards.
func TestProductBounds(t *testing.T) {
	for _, s := range allSchemes {
		n, q, eta, q2 := s.n, int(s.q), s.eta, 1<<s.d
		low, high := 1<<(limbBits-1), (q/2+1<<(limbBits-1))>>limbBits
		for _, product := range []struct {
			what string
			// terms is how many products of a coefficient of each factor
			// make up one of the product, at most n at a time; bound is the
			// largest such product.
			terms, bound int
			// scale and added: what a folded coefficient is multiplied by and
			// what is then added to it before it is reduced.
			scale, added int
		}{
			{"noise times R_q", n, q / 2 * eta, 2, q / 2},
			{"secret times ciphertext", n, q2 / 2 * (2*eta + 1), 1, 0},
			{"low limbs", n, low * low, 1, q << limbBits},
			{"mixed limbs", 2 * n, low * high, 1, q << limbBits},
			{"high limbs", n, high * high, 1, 0},
		} {
			if product.terms*product.bound >= modulus/2 {
				t.Errorf("%s: %s: %d is not below Q/2", s.name, product.what, product.terms*product.bound)
			}
			// A folded coefficient sums up at most 2n-1 terms instead of n.
			folded := product.scale*2*product.terms*product.bound + product.added
			if folded > 1<<26 {
				t.Errorf("%s: %s: %d is not below 2^26", s.name, product.what, folded)
			}
		}
	}
}

func TestResidue(t *testing.T) {
	r := newRandom(t)
	two64 := mulModQ(1<<32, 1<<32)
	check := func(p int64) {
		got := residue(p)
		if got < -(modulus+1)/2 || got > (modulus+1)/2 {
			t.Fatalf("residue(%d) = %d is out of range", p, got)
		}
		if mulModQ(got, two64) != mulModQ(-p, 1) {
			t.Fatalf("residue(%d) = %d is wrong", p, got)
		}
	}
	for _, p := range []int64{0, 1, -1, modulus, -modulus, modulus / 2, 1<<62 - 1, -1<<62 + 1} {
		check(p)
	}
	for range 100000 {
		check(int64(r.Uint64()) >> 2 >> r.below(62))
	}
}

func TestMul(t *testing.T) {
	r := newRandom(t)
	for range 100000 {
		w := int64(r.below(modulus))
		a := int64(r.Uint64()) >> 26 >> r.below(38)
		got := mul(a, newFactor(uint64(w)))
		if got < -(modulus+1)/2 || got > (modulus+1)/2 || mulModQ(got, 1) != mulModQ(a, w) {
			t.Fatalf("mul(%d, %d) = %d", a, w, got)
		}
	}
}

// forEachLift calls f with blocks that hold every residue modulo q, shifted by
// multiples of q to both ends of the range of reduce and compress, and with
// random ones.
func forEachLift(r random, s *Scheme, f func(in *[8]int32)) {
	const limit = 1 << 26
	q := int(s.q)
	for _, base := range []int{-limit, -q, 0, limit - q + 1} {
		for x := 0; x < q; x += 8 {
			var in [8]int32
			for j := range in {
				in[j] = int32(base + min(x+j, q-1))
			}
			f(&in)
		}
	}
	for range 10000 {
		var in [8]int32
		for j := range in {
			in[j] = int32(r.within(limit))
		}
		f(&in)
	}
}

func TestReduce(t *testing.T) {
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, ref *reference) {
		var out [8]uint16
		forEachLift(r, s, func(in *[8]int32) {
			s.reduce(&out, in)
			for j, x := range in {
				if int(out[j]) != mod(int(x), ref.q) {
					t.Fatalf("reduce(%d) = %d", x, out[j])
				}
			}
		})
	})
}

func TestCompress(t *testing.T) {
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, ref *reference) {
		var out [8]uint16
		forEachLift(r, s, func(in *[8]int32) {
			word := uint16(r.below(256))
			s.compress(&out, in, word)
			for j, x := range in {
				want := (mod(int(x), ref.q)<<ref.d + ref.q/2) / ref.q
				want = (want + int(word>>j&1)<<(ref.d-1)) % (1 << ref.d)
				if int(out[j]) != want {
					t.Fatalf("compress(%d, %d) = %d, want %d", x, word>>j&1, out[j], want)
				}
			}
		})
	})
}

func TestCentreAndInvert(t *testing.T) {
	forEachScheme(t, func(t *testing.T, s *Scheme, ref *reference) {
		for x := range ref.q {
			c := int(s.centre(int32(x)))
			if c < -(ref.q-1)/2 || c > (ref.q-1)/2 || mod(c, ref.q) != x {
				t.Fatalf("centre(%d) = %d", x, c)
			}
			if got := s.invert(uint32(x)); x > 0 && int(got)*x%ref.q != 1 || x == 0 && got != 0 {
				t.Fatalf("invert(%d) = %d", x, got)
			}
		}
		// The largest product that a division's scaling reduces.
		for _, x := range []uint32{0, uint32(s.q), 1<<14*uint32(s.q) - 1, 1<<32 - 1} {
			if got := s.modQ(x); got != x%uint32(s.q) {
				t.Fatalf("modQ(%d) = %d", x, got)
			}
		}
		if hi, lo := bits.Mul64(s.recip, uint64(s.q)); hi != 1 || lo >= uint64(s.q) {
			t.Fatalf("recip is not ceil(2^64/q)")
		}
	})
}
