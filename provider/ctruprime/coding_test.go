package ctruprime

import (
	"bytes"
	"slices"
	"testing"
)

func TestSample(t *testing.T) {
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, ref *reference) {
		for i := range 8 {
			coins := make([]byte, s.sampleSize())
			switch i {
			case 0: // all zeros
			case 1:
				for j := range coins {
					coins[j] = 0xff
				}
			default:
				r.Read(coins) // beyond coinSize, too, where nothing may matter
			}
			out := s.newPoly(func(int) int { return 99 })
			s.sample(out, coins)
			if want := ref.binomial(coins[:ref.coinSize]); !slices.Equal(toInts(out, s.n), want) {
				t.Fatalf("coins %x: got %v, want %v", coins, out, want)
			}
			for _, x := range out[s.n:] {
				if x != 0 {
					t.Fatal("the padding is not zero")
				}
			}
		}
	})
}

func TestPackPublicKey(t *testing.T) {
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, ref *reference) {
		for range 8 {
			h := make(spectrum, s.size)
			for i := range h[:s.n] {
				h[i] = int32(r.within(1 << 26))
			}
			pk := make([]byte, s.publicKeySize)
			s.packPublicKey(pk, h)
			if want := packBits(modAll(toInts(h, s.n), ref.q), 13); !bytes.Equal(pk, want) {
				t.Fatalf("got %x, want %x", pk, want)
			}
			back := s.newPoly(func(int) int { return 99 })
			if !s.unpackPublicKey(back, pk) {
				t.Fatal("a packed key is invalid")
			}
			for i, x := range back {
				if i < s.n && mod(int(x), ref.q) != mod(int(h[i]), ref.q) || i >= s.n && x != 0 {
					t.Fatalf("coefficient %d: got %d for %d", i, x, h[i])
				}
				if x < -int16(s.q/2) || x > int16(s.q/2) {
					t.Fatalf("coefficient %d, %d, is not centred", i, x)
				}
			}
		}
	})
}

func TestPackCiphertext(t *testing.T) {
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, ref *reference) {
		ct := r.bytes(s.ciphertextSize) // the padding, too, which is ignored
		c := s.newPoly(func(int) int { return 99 })
		s.unpackCiphertext(c, ct)
		values := unpackBits(ct, ref.d, s.n)
		for i, x := range values {
			if c[i] < -1<<(s.d-1) || c[i] >= 1<<(s.d-1) || mod(int(c[i]), 1<<ref.d) != x {
				t.Fatalf("coefficient %d: got %d for %d", i, c[i], x)
			}
		}
		var v [8]uint16
		packed := make([]byte, s.ciphertextSize)
		for i := range s.groups() {
			v = [8]uint16{}
			for j := range min(8, s.n-8*i) {
				v[j] = uint16(values[8*i+j])
			}
			packGroup(packed[int(s.d)*i:], &v, s.d)
		}
		if want := packBits(values, ref.d); !bytes.Equal(packed, want) {
			t.Fatalf("got %x, want %x", packed, want)
		}
	})
}

func TestPackPrivatePoly(t *testing.T) {
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, ref *reference) {
		half := s.newPoly(func(int) int { return r.within(s.eta) })
		packed := make([]byte, s.privatePoly)
		s.packPrivatePoly(packed, half)
		f := s.newPoly(func(int) int { return 99 })
		if !s.unpackPrivatePoly(f, packed) {
			t.Fatal("a packed secret is invalid")
		}
		for i, x := range f {
			want := 2 * int(half[i])
			if i == 0 {
				want++
			}
			if int(x) != want {
				t.Fatalf("coefficient %d: got %d, want %d", i, x, want)
			}
		}
		if !slices.Equal(toInts(f, s.n), ref.secret(packed)) {
			t.Fatal("the reference reads another secret")
		}
	})
}

func TestCodeword(t *testing.T) {
	var ref reference
	for nibble := range 16 {
		for _, high := range []byte{0, 0xf0} { // the high bits do not matter
			if got := codeword(high | byte(nibble)); int(got) != ref.word(nibble) {
				t.Errorf("codeword(%d) = %#x, want %#x", nibble, got, ref.word(nibble))
			}
		}
	}
}

// TestDecodeBlock compares the decoder with the one of the scheme's text, which
// squares, on random blocks, on blocks near codewords, and on blocks of few
// values, where ties abound.
func TestDecodeBlock(t *testing.T) {
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, ref *reference) {
		modulus := 1 << s.d
		quarter := modulus / 4
		for i := range 200000 {
			var block [8]int32
			nibble := r.below(16)
			for j := range block {
				switch i % 4 {
				case 0: // any representative
					block[j] = int32(r.within(1 << 26))
				case 1:
					block[j] = int32(ref.word(nibble)>>j&1*modulus/2 + r.within(quarter))
				case 2:
					block[j] = int32(r.below(4) * quarter)
				case 3:
					block[j] = int32(r.below(4)*quarter + r.within(1))
				}
			}
			v := make([]int, 8)
			for j, x := range block {
				v[j] = mod(int(x), modulus)
			}
			if got, want := decodeBlock(&block, s.d), ref.decode(v); int(got) != want {
				t.Fatalf("%v: got %d, want %d", v, got, want)
			}
		}
		for nibble := range 16 {
			var block [8]int32
			for j := range block {
				block[j] = int32(ref.word(nibble) >> j & 1 * modulus / 2)
			}
			if got := decodeBlock(&block, s.d); int(got) != nibble {
				t.Errorf("the codeword of %d decodes to %d", nibble, got)
			}
		}
	})
}
