//go:build valgrind && linux && amd64

package ctruprime

import (
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/provider/internal/valgrind"
)

// TestCounts runs each operation once as a profile for callgrind (see
// scripts/counts.sh).
func TestCounts(t *testing.T) {
	r := newRandom(t)
	forEachLevel(t, func(t *testing.T, s, plain *Scheme) {
		sk, _ := r.newKey(t, plain)
		pk, seed, keySeed := s.PublicKeyOf(sk), r.bytes(EncapsulationSeedSize), r.bytes(KeySeedSize)
		ct, ss := make([]byte, s.CiphertextSize()), make([]byte, SharedKeySize)
		sks, seeds := make([][]byte, MaxKeyGroup), make([][]byte, MaxKeyGroup)
		for i := range sks {
			sks[i], seeds[i] = make([]byte, s.PrivateKeySize()), r.bytes(KeySeedSize)
		}
		e, d := make([]Encapsulation, 4), make([]Decapsulation, 4)
		for i := range 4 {
			e[i] = Encapsulation{make([]byte, s.CiphertextSize()), make([]byte, SharedKeySize), pk, seed, nil}
			d[i] = Decapsulation{make([]byte, SharedKeySize), sk, ct, nil}
		}
		_, level, _ := strings.Cut(t.Name(), "/")
		for _, o := range []struct {
			name string
			f    func()
		}{
			{"encapsulate", func() { check(t, s.EncapsulateBytes(ct, ss, pk, seed)) }},
			{"decapsulate", func() { check(t, s.DecapsulateBytes(ss, sk, ct)) }},
			{"encapsulate-4", func() { s.EncapsulateBatch(e) }},
			{"decapsulate-4", func() { s.DecapsulateBatch(d) }},
			{"generate", func() { check(t, s.GenerateKeyBytes(sks[0], keySeed)) }},
			{"generate-32", func() { check(t, s.GenerateKeysBytes(sks, seeds)) }},
		} {
			o.f() // fills the pools
			valgrind.Count(level+"/"+o.name, o.f)
		}
	})
}
