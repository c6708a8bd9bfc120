package ctruprime

import (
	"bytes"
	"errors"
	"testing"
)

// pick chooses a parameter set from a fuzzer's byte.
func pick(b byte) (*Scheme, *reference) {
	s := allSchemes[int(b)%len(allSchemes)]
	return s, references[s.Name()]
}

// fit cuts or pads data with zeros to size bytes.
func fit(data []byte, size int) []byte {
	return append(bytes.Clone(data), make([]byte, size)...)[:size]
}

// FuzzDecapsulate decapsulates any ciphertext, or a good one with any change,
// here and in the reference.
func FuzzDecapsulate(f *testing.F) {
	var packed, cts [len(allSchemes)][]byte
	for i, s := range allSchemes {
		packed[i], cts[i] = make([]byte, s.PrivateKeySize()), make([]byte, s.CiphertextSize())
		if err := s.GenerateKeyBytes(packed[i], make([]byte, KeySeedSize)); err != nil {
			f.Fatal(err)
		}
		if err := s.EncapsulateBytes(cts[i], make([]byte, SharedKeySize), s.PublicKeyOf(packed[i]), make([]byte, EncapsulationSeedSize)); err != nil {
			f.Fatal(err)
		}
	}
	for set := range byte(len(allSchemes)) {
		f.Add(set, true, []byte{})
		f.Add(set, true, []byte{1})
		f.Add(set, false, []byte{})
	}
	f.Fuzz(func(t *testing.T, set byte, change bool, data []byte) {
		s, ref := pick(set)
		sk := packed[int(set)%len(allSchemes)]
		ct := fit(data, s.CiphertextSize())
		if change {
			for i, b := range cts[int(set)%len(allSchemes)] {
				ct[i] ^= b
			}
		}
		ss := make([]byte, SharedKeySize)
		if err := s.DecapsulateBytes(ss, sk, ct); err != nil {
			t.Fatal(err)
		}
		if want := ref.decapsulate(sk, ct); !bytes.Equal(ss, want) {
			t.Errorf("%s, %x: got %x, want %x", s.Name(), ct, ss, want)
		}
	})
}

// FuzzUnmarshalPublicKey parses anything as a public key. What parses must be
// what the reference finds valid, marshal to the same bytes, and encapsulate as
// in the reference.
func FuzzUnmarshalPublicKey(f *testing.F) {
	for set := range byte(len(allSchemes)) {
		s, _ := pick(set)
		sk := make([]byte, s.PrivateKeySize())
		if err := s.GenerateKeyBytes(sk, make([]byte, KeySeedSize)); err != nil {
			f.Fatal(err)
		}
		f.Add(set, bytes.Clone(s.PublicKeyOf(sk)))
		f.Add(set, bytes.Repeat([]byte{0xff}, s.PublicKeySize()))
		f.Add(set, []byte{})
	}
	f.Fuzz(func(t *testing.T, set byte, data []byte) {
		s, ref := pick(set)
		pk, err := s.UnmarshalBinaryPublicKey(data)
		if len(data) != s.PublicKeySize() {
			if !errors.Is(err, ErrPublicKeySize) {
				t.Fatalf("%s, %d bytes: error %v", s.Name(), len(data), err)
			}
			return
		}
		if !ref.validPublicKey(data) {
			if !errors.Is(err, ErrPublicKey) {
				t.Fatalf("%s, %x: error %v", s.Name(), data, err)
			}
			return
		}
		if err != nil {
			t.Fatalf("%s, %x: error %v", s.Name(), data, err)
		}
		if !bytes.Equal(marshal(t, pk), data) {
			t.Fatalf("%s, %x: marshals to %x", s.Name(), data, marshal(t, pk))
		}
		seed := make([]byte, EncapsulationSeedSize)
		ct, ss, err := s.EncapsulateDeterministically(pk, seed)
		wantCT, wantSS := ref.encapsulate(data, seed)
		if err != nil || !bytes.Equal(ct, wantCT) || !bytes.Equal(ss, wantSS) {
			t.Fatalf("%s, %x: encapsulates to %x, want %x, error %v", s.Name(), data, ct, wantCT, err)
		}
	})
}

// coefficients reads coefficients in [-bound, bound] from a fuzzer's bytes, two
// each, and repeats them up to the degree.
func (p *parameters) coefficients(data []byte, bound int) poly {
	if len(data) < 2 {
		data = fit(data, 2)
	}
	return p.newPoly(func(i int) int {
		at := i % (len(data) / 2) * 2
		return (int(data[at])<<8|int(data[at+1]))%(2*bound+1) - bound
	})
}

// FuzzProduct multiplies within every bound that the scheme multiplies in, by
// the transform and by the schoolbook.
func FuzzProduct(f *testing.F) {
	for set := range byte(len(allSchemes)) {
		f.Add(set, []byte{}, []byte{0xff, 0xff})
		f.Add(set, []byte{0, 0, 1, 2}, []byte{0, 1})
	}
	f.Fuzz(func(t *testing.T, set byte, a, b []byte) {
		s, _ := pick(set)
		for _, bounds := range operandKinds(s) {
			checkProduct(t, s, s.coefficients(a, bounds[0]), s.coefficients(b, bounds[1]))
		}
	})
}

// FuzzInverse inverts by division steps and by the Euclidean algorithm.
func FuzzInverse(f *testing.F) {
	for set := range byte(len(allSchemes)) {
		f.Add(set, []byte{})
		f.Add(set, []byte{0, 0, 0, 1, 2, 3})
	}
	f.Fuzz(func(t *testing.T, set byte, data []byte) {
		s, ref := pick(set)
		a := s.coefficients(data, int(s.q/2))
		if allZero(a) {
			a[0] = 1
		}
		checkInverse(t, s, ref, a)
	})
}
