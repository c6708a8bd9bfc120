package ctruprime

import (
	"bytes"
	"testing"
)

// overlapping returns a copy of a buffer that a result goes to and of an argument
// that begins at an offset of it, from -len(argument) to size, in the same memory.
func overlapping(size, at int, argument []byte) (result, inside []byte) {
	margin := len(argument)
	memory := make([]byte, margin+size+margin)
	inside = memory[margin+at:][:len(argument):len(argument)]
	copy(inside, argument)
	return memory[margin:][:size:size], inside
}

// TestSeedInKey generates keys from seeds that overlap them: in groups at every
// offset, from one byte at the one end to one at the other, and alone at those
// where a part of the key begins or ends and at a random one.
func TestSeedInKey(t *testing.T) {
	r := newRandom(t)
	forEachLevel(t, func(t *testing.T, s, plain *Scheme) {
		seed, want := r.bytes(KeySeedSize), make([]byte, s.PrivateKeySize())
		check(t, plain.GenerateKeyBytes(want, seed))

		var sks, seeds [][]byte
		for at := 1 - KeySeedSize; at < s.PrivateKeySize(); at++ {
			sk, inside := overlapping(s.PrivateKeySize(), at, seed)
			sks, seeds = append(sks, sk), append(seeds, inside)
		}
		check(t, s.GenerateKeysBytes(sks, seeds))
		for i, sk := range sks {
			if !bytes.Equal(sk, want) {
				t.Fatalf("seed %x at %d of one of many keys: got %x, want %x", seed, i+1-KeySeedSize, sk, want)
			}
		}

		for _, at := range []int{
			1 - KeySeedSize, 1 - SeedSize, 0, 1, s.privatePoly - KeySeedSize, s.privatePoly - SeedSize, s.privatePoly,
			r.below(s.PrivateKeySize()), s.PrivateKeySize() - KeySeedSize, s.PrivateKeySize() - RejectionSize, s.PrivateKeySize() - 1,
		} {
			sk, inside := overlapping(s.PrivateKeySize(), at, seed)
			check(t, s.GenerateKeyBytes(sk, inside))
			if !bytes.Equal(sk, want) {
				t.Fatalf("seed %x at %d of a key: got %x, want %x", seed, at, sk, want)
			}
		}
	})
}

// TestOverlap lets each result of encapsulation and decapsulation overlap each
// argument that the documentation lets it overlap.
func TestOverlap(t *testing.T) {
	r := newRandom(t)
	forEachLevel(t, func(t *testing.T, s, plain *Scheme) {
		sk, key := r.newKey(t, plain)
		pk, seed := s.PublicKeyOf(sk), r.bytes(EncapsulationSeedSize)
		ct, ss := make([]byte, s.CiphertextSize()), make([]byte, SharedKeySize)
		check(t, plain.EncapsulateBytes(ct, ss, pk, seed))
		encapsulated := func(what string, gotCT, gotSS []byte, err error) {
			t.Helper()
			if err != nil || !bytes.Equal(gotCT, ct) || !bytes.Equal(gotSS, ss) {
				t.Errorf("%s: got %x and %x, error %v, want %x and %x", what, gotCT, gotSS, err, ct, ss)
			}
		}
		parsed, err := s.UnmarshalBinaryPrivateKey(marshal(t, key))
		check(t, err)
		own := parsed.(*PrivateKey)
		for _, at := range []int{1 - len(seed), 0, r.below(len(ct)), len(ct) - len(seed), len(ct) - 1} {
			gotCT, inside := overlapping(len(ct), at, seed)
			gotSS := make([]byte, len(ss))
			encapsulated("EncapsulateTo, seed in ct", gotCT, gotSS, s.EncapsulateTo(gotCT, gotSS, own.public, inside))
			gotCT, inside = overlapping(len(ct), at, seed)
			encapsulated("EncapsulateBytes, seed in ct", gotCT, gotSS, s.EncapsulateBytes(gotCT, gotSS, pk, inside))
			gotCT, inside = overlapping(len(ct), at, seed)
			batch := []Encapsulation{{gotCT, gotSS, pk, inside, nil}}
			s.EncapsulateBatch(batch)
			encapsulated("EncapsulateBatch, seed in ct", gotCT, gotSS, batch[0].Err)
		}
		for _, at := range []int{1 - len(seed), 0, len(seed) - 1} {
			gotSS, inside := overlapping(len(ss), at, seed)
			gotCT := make([]byte, len(ct))
			encapsulated("seed in ss", gotCT, gotSS, s.EncapsulateBytes(gotCT, gotSS, pk, inside))
		}
		for _, at := range []int{1 - len(ct), 0, len(pk) - len(ct), len(pk) - 1} {
			gotCT, inside := overlapping(len(ct), -at, pk)
			gotSS := make([]byte, len(ss))
			encapsulated("ct in pk", gotCT, gotSS, s.EncapsulateBytes(gotCT, gotSS, inside, seed))
		}
		for _, at := range []int{1 - len(ss), 0, r.below(len(pk)), len(pk) - 1} {
			gotSS, inside := overlapping(len(ss), -at, pk)
			gotCT := make([]byte, len(ct))
			encapsulated("ss in pk", gotCT, gotSS, s.EncapsulateBytes(gotCT, gotSS, inside, seed))
		}

		for _, tamper := range []byte{0, 1} {
			ct[r.below(len(ct))] ^= tamper
			check(t, plain.DecapsulateBytes(ss, sk, ct))
			decapsulated := func(what string, got []byte, err error) {
				t.Helper()
				if err != nil || !bytes.Equal(got, ss) {
					t.Errorf("%s: got %x, error %v, want %x", what, got, err, ss)
				}
			}
			for _, at := range []int{1 - len(ss), 0, r.below(len(ct)), len(ct) - len(ss), len(ct) - 1} {
				got, inside := overlapping(len(ss), -at, ct)
				decapsulated("DecapsulateTo, ss in ct", got, s.DecapsulateTo(got, own, inside))
				got, inside = overlapping(len(ss), -at, ct)
				decapsulated("DecapsulateBytes, ss in ct", got, s.DecapsulateBytes(got, sk, inside))
				got, inside = overlapping(len(ss), -at, ct)
				batch := []Decapsulation{{got, sk, inside, nil}}
				s.DecapsulateBatch(batch)
				decapsulated("DecapsulateBatch, ss in ct", got, batch[0].Err)
			}
			for _, at := range []int{1 - len(ss), 0, s.privatePoly, len(sk) - len(ss), len(sk) - 1} {
				got, inside := overlapping(len(ss), -at, sk)
				decapsulated("ss in sk", got, s.DecapsulateBytes(got, inside, ct))
			}
		}
	})
}
