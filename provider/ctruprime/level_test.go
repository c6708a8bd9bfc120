package ctruprime

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// forEachLevel runs a subtest for each parameter set at each level beside the
// portable code of the set.
func forEachLevel(t *testing.T, f func(t *testing.T, s, plain *Scheme)) {
	for _, level := range Levels() {
		for _, s := range allSchemes {
			t.Run(level.String()+"/"+s.name, func(t *testing.T) { f(t, at(t, s, level), at(t, s, Portable)) })
		}
	}
}

func at(t testing.TB, s *Scheme, level Level) *Scheme {
	t.Helper()
	other, err := s.At(level)
	check(t, err)
	return other
}

// TestLevels: the schemes are at the last level that runs here, and there is none
// beyond it.
func TestLevels(t *testing.T) {
	all := Levels()
	if all[0] != Portable || all[len(all)-1] != bestLevel() {
		t.Errorf("%v", all)
	}
	for _, none := range []Level{Portable - 1, AVX512 + 1, bestLevel() + 1} {
		if s, err := scheme761.At(none); err == nil || s != nil || !strings.HasPrefix(err.Error(), "ctruprime: level ") {
			t.Errorf("%v: %v", none, err)
		}
	}
	if at(t, scheme761, Portable).vector != nil {
		t.Error("portable code is not portable")
	}
}

// TestLevelsAgree compares all operations with those of portable code.
func TestLevelsAgree(t *testing.T) {
	r := newRandom(t)
	forEachLevel(t, func(t *testing.T, s, plain *Scheme) {
		equal := func(what string, got, want []byte) {
			t.Helper()
			if !bytes.Equal(got, want) {
				t.Fatalf("%s: got %x, want %x", what, got, want)
			}
		}
		for range 8 {
			keySeed, seed := r.bytes(KeySeedSize), r.bytes(EncapsulationSeedSize)
			sk, want := make([]byte, s.PrivateKeySize()), make([]byte, s.PrivateKeySize())
			check(t, s.GenerateKeyBytes(sk, keySeed))
			check(t, plain.GenerateKeyBytes(want, keySeed))
			equal("private key", sk, want)

			ct, ss := make([]byte, s.CiphertextSize()), make([]byte, SharedKeySize)
			wantCT, wantSS := make([]byte, s.CiphertextSize()), make([]byte, SharedKeySize)
			check(t, s.EncapsulateBytes(ct, ss, s.PublicKeyOf(sk), seed))
			check(t, plain.EncapsulateBytes(wantCT, wantSS, s.PublicKeyOf(sk), seed))
			equal("ciphertext", ct, wantCT)
			equal("encapsulated key", ss, wantSS)

			for _, tamper := range []byte{0, 1 << r.below(8)} {
				ct[r.below(len(ct))] ^= tamper
				check(t, s.DecapsulateBytes(ss, sk, ct))
				check(t, plain.DecapsulateBytes(wantSS, sk, ct))
				equal("decapsulated key", ss, wantSS)
			}
		}
	})
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestBatches compares batches of every length about the number of lanes, some
// elements of which are at fault, with the operations one by one.
func TestBatches(t *testing.T) {
	r := newRandom(t)
	forEachLevel(t, func(t *testing.T, s, plain *Scheme) {
		packed, _ := r.newKey(t, plain)
		for length := range 2*maxLanes + 2 {
			encapsulations, decapsulations := make([]Encapsulation, length), make([]Decapsulation, length)
			for i := range length {
				encapsulations[i] = Encapsulation{
					Ciphertext: make([]byte, s.CiphertextSize()), SharedKey: make([]byte, SharedKeySize),
					PublicKey: bytes.Clone(s.PublicKeyOf(packed)), Seed: r.bytes(EncapsulationSeedSize),
				}
				if r.below(4) == 0 {
					encapsulations[i].PublicKey[0], encapsulations[i].PublicKey[1] = 0xff, 0xff
				}
			}
			s.EncapsulateBatch(encapsulations)
			for i, e := range encapsulations {
				ct, ss := make([]byte, s.CiphertextSize()), make([]byte, SharedKeySize)
				err := plain.EncapsulateBytes(ct, ss, e.PublicKey, e.Seed)
				if !errors.Is(e.Err, err) || !bytes.Equal(ct, e.Ciphertext) || !bytes.Equal(ss, e.SharedKey) {
					t.Fatalf("encapsulation %d of %d: got %v, %x, %x, want %v, %x, %x", i, length, e.Err, e.Ciphertext, e.SharedKey, err, ct, ss)
				}
				d := &decapsulations[i]
				*d = Decapsulation{SharedKey: make([]byte, SharedKeySize), PrivateKey: bytes.Clone(packed), Ciphertext: ct}
				switch r.below(4) {
				case 0:
					d.PrivateKey[0] = 0xff
				case 1:
					d.Ciphertext = r.bytes(len(ct))
				}
			}
			s.DecapsulateBatch(decapsulations)
			for i, d := range decapsulations {
				ss := make([]byte, SharedKeySize)
				err := plain.DecapsulateBytes(ss, d.PrivateKey, d.Ciphertext)
				if !errors.Is(d.Err, err) || !bytes.Equal(ss, d.SharedKey) {
					t.Fatalf("decapsulation %d of %d: got %v, %x, want %v, %x", i, length, d.Err, d.SharedKey, err, ss)
				}
			}
		}
	})
}

// TestBatchSizes passes buffers of wrong lengths.
func TestBatchSizes(t *testing.T) {
	forEachLevel(t, func(t *testing.T, s, _ *Scheme) {
		e := []Encapsulation{{}}
		s.EncapsulateBatch(e)
		if !errors.Is(e[0].Err, ErrPublicKeySize) {
			t.Errorf("got %v, want %v", e[0].Err, ErrPublicKeySize)
		}
		d := []Decapsulation{{}}
		s.DecapsulateBatch(d)
		if !errors.Is(d[0].Err, ErrPrivateKeySize) {
			t.Errorf("got %v, want %v", d[0].Err, ErrPrivateKeySize)
		}
	})
}
