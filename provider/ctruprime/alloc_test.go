//go:build !race

package ctruprime

import (
	"crypto/rand"
	"runtime/debug"
	"testing"
)

// Under the race detector sync.Pool drops a part of what is put into it, so
// that allocations can only be counted without it.

// TestAllocations counts the allocations of each operation, without garbage
// collections, which empty the pools.
func TestAllocations(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	forEachScheme(t, func(t *testing.T, s *Scheme, _ *reference) {
		packed, sk := newRandom(t).newKey(t, s)
		pk := sk.public
		ct, ss, seed := make([]byte, s.CiphertextSize()), make([]byte, SharedKeySize), make([]byte, EncapsulationSeedSize)
		keySeed := make([]byte, KeySeedSize)
		rand.Read(keySeed)
		generated := make([]byte, s.PrivateKeySize())
		for _, c := range []struct {
			what string
			want float64
			runs int
			f    func() error
		}{
			{"EncapsulateTo", 0, 100, func() error { return s.EncapsulateTo(ct, ss, pk, seed) }},
			{"EncapsulateBytes", 0, 100, func() error { return s.EncapsulateBytes(ct, ss, pk.packed, seed) }},
			{"DecapsulateTo", 0, 100, func() error { return s.DecapsulateTo(ss, sk, ct) }},
			{"DecapsulateBytes", 0, 100, func() error { return s.DecapsulateBytes(ss, packed, ct) }},
			{"GenerateKeyBytes", 0, 10, func() error { return s.GenerateKeyBytes(generated, keySeed) }},
			{"GenerateKeysBytes", 0, 10, func() error {
				return s.GenerateKeysBytes([][]byte{generated, packed}, [][]byte{keySeed, keySeed})
			}},
			{"Encapsulate", 2, 100, func() error { _, _, err := s.Encapsulate(pk); return err }},
			{"EncapsulateDeterministically", 2, 100, func() error { _, _, err := s.EncapsulateDeterministically(pk, seed); return err }},
			{"Decapsulate", 1, 100, func() error { _, err := s.Decapsulate(sk, ct); return err }},
		} {
			var err error
			got := testing.AllocsPerRun(c.runs, func() { err = c.f() })
			if err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("%s: %v allocations, want %v", c.what, got, c.want)
			}
		}
	})
}
