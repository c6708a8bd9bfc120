package ctruprime

import (
	"crypto/mlkem"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/cloudflare/circl/kem/mlkem/mlkem768"
)

// leastTime returns the least time in microseconds that one of so many runs of
// f took, each divided by calls: on a shared machine only undisturbed runs
// compare.
func leastTime(runs, calls int, f func()) float64 {
	least := time.Hour
	for range runs {
		start := time.Now()
		for range calls {
			f()
		}
		least = min(least, time.Since(start))
	}
	return float64(least.Nanoseconds()) / 1000 / float64(calls)
}

// An operation is one row of the comparison.
type operation struct {
	name  string
	calls int     // in a run
	each  float64 // what one call counts for
	f     func()
}

// BenchmarkRatios prints the operations of CTRU-Prime-761 from bytes beside those
// of ML-KEM-768, as multiples of circl's ML-KEM-768 encapsulation with a parsed
// key in the same run.
func BenchmarkRatios(b *testing.B) {
	for level, name := range []string{"portable", "avx2", "avx512"} {
		s := newSchemeFor(newParameters("CTRU-Prime-761", 761, 4591, 2, 10, 3), vectorLevel(level))
		if vectorLevel(level) != portable && s.vector == nil {
			continue
		}
		printRatios(b, name, append(mlkemOperations(b), schemeOperations(b, s)...))
	}
}

func printRatios(b *testing.B, title string, operations []operation) {
	times := make([]float64, len(operations))
	for round := range 5 { // interleaved
		for i, o := range operations {
			t := leastTime(200, o.calls, o.f) / o.each
			if round == 0 || t < times[i] {
				times[i] = t
			}
		}
	}
	text := title + ":\n"
	for i, o := range operations {
		text += fmt.Sprintf("%-44s %8.2f us %7.3f\n", o.name, times[i], times[i]/times[0])
	}
	b.Log(text)
}

func mlkemOperations(b *testing.B) []operation {
	scheme := mlkem768.Scheme()
	pk, sk, err := scheme.GenerateKeyPair()
	must(b, err)
	packed, err := pk.MarshalBinary()
	must(b, err)
	ct, _, err := scheme.Encapsulate(pk)
	must(b, err)
	dk, err := mlkem.GenerateKey768()
	must(b, err)
	return []operation{
		{"circl ML-KEM-768 Encaps, parsed", 8, 1, func() { scheme.Encapsulate(pk) }},
		{"circl ML-KEM-768 Encaps, from bytes", 4, 1, func() {
			key, _ := scheme.UnmarshalBinaryPublicKey(packed)
			scheme.Encapsulate(key)
		}},
		{"circl ML-KEM-768 Decaps, parsed", 4, 1, func() { scheme.Decapsulate(sk, ct) }},
		{"circl ML-KEM-768 KeyGen", 4, 1, func() { scheme.GenerateKeyPair() }},
		{"crypto/mlkem 768 Encaps, parsed", 4, 1, func() { dk.EncapsulationKey().Encapsulate() }},
		{"crypto/mlkem 768 Decaps, parsed", 4, 1, func() { dk.Decapsulate(ct) }},
		{"crypto/mlkem 768 KeyGen", 4, 1, func() { mlkem.GenerateKey768() }},
	}
}

func schemeOperations(b *testing.B, s *Scheme) []operation {
	sk, ct, ss, seed := benchmarkBuffers(b, s)
	pk := s.PublicKeyOf(sk)
	key, err := s.UnmarshalBinaryPublicKey(pk)
	must(b, err)
	must(b, s.EncapsulateBytes(ct, ss, pk, seed))
	keySeed := make([]byte, KeySeedSize)
	other := make([]byte, s.PrivateKeySize())
	sks, seeds := make([][]byte, MaxKeyGroup), make([][]byte, MaxKeyGroup)
	for i := range sks {
		sks[i], seeds[i] = make([]byte, s.PrivateKeySize()), make([]byte, KeySeedSize)
		rand.Read(seeds[i])
	}
	return []operation{
		{s.name + " Encaps, from bytes", 8, 1, func() { s.EncapsulateBytes(ct, ss, pk, seed) }},
		{s.name + " Encaps, parsed", 8, 1, func() { s.EncapsulateTo(ct, ss, key.(*PublicKey), seed) }},
		{s.name + " Decaps, from bytes", 4, 1, func() { s.DecapsulateBytes(ss, sk, ct) }},
		{s.name + " KeyGen, batch of 32, each", 1, MaxKeyGroup, func() { s.GenerateKeysBytes(sks, seeds) }},
		{s.name + " KeyGen", 1, 1, func() { s.GenerateKeyBytes(other, keySeed) }},
	}
}
