package ctruprime

import (
	"crypto/mlkem"
	"crypto/rand"
	"testing"
	"time"

	"github.com/cloudflare/circl/kem/mlkem/mlkem768"
)

// leastTime returns the least time in microseconds of one call of f in many
// runs of so many calls: on a shared machine only undisturbed runs compare.
func leastTime(calls int, f func()) float64 {
	least := time.Hour
	end := time.Now().Add(20 * time.Millisecond)
	for runs := 0; runs < 10 || time.Now().Before(end); runs++ {
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

// BenchmarkRatios measures the operations of CTRU-Prime-761 from bytes, in each code
// that this processor runs, of the other sets in the best, and of ML-KEM-768: in
// microseconds, and as multiples of circl's ML-KEM-768 encapsulation with a parsed
// key, the two in turns. It is for -benchtime 1x; with -count, benchstat says how
// far runs differ.
func BenchmarkRatios(b *testing.B) {
	unit, others := mlkemOperations(b)
	reportRatios(b, unit, "", others)
	for _, name := range []string{"portable", "avx2", "avx512"} {
		if level, ok := levels()[name]; ok {
			reportRatios(b, unit, name+"/", schemeOperations(b, newSchemeFor(scheme761.parameters, level)))
		}
	}
	for _, s := range []*Scheme{scheme653, scheme1277} {
		reportRatios(b, unit, "best/", schemeOperations(b, s))
	}
}

func reportRatios(b *testing.B, unit operation, code string, operations []operation) {
	for _, o := range operations {
		b.Run(code+o.name, func(b *testing.B) {
			u, t := unit.time(), o.time()
			for range 9 {
				u, t = min(u, unit.time()), min(t, o.time())
			}
			b.ReportMetric(0, "ns/op") // leaves it out
			b.ReportMetric(t, "us")
			b.ReportMetric(t/u, "ratio")
		})
	}
}

// time returns the least time of the operation in microseconds.
func (o operation) time() float64 { return leastTime(o.calls, o.f) / o.each }

// mlkemOperations returns the operation that others are multiples of, and those of
// ML-KEM-768.
func mlkemOperations(b *testing.B) (unit operation, others []operation) {
	scheme := mlkem768.Scheme()
	pk, sk, err := scheme.GenerateKeyPair()
	must(b, err)
	packed, err := pk.MarshalBinary()
	must(b, err)
	ct, _, err := scheme.Encapsulate(pk)
	must(b, err)
	dk, err := mlkem.GenerateKey768()
	must(b, err)
	ek := dk.EncapsulationKey()
	unit = operation{"circl-ML-KEM-768/Encaps-parsed", 8, 1, func() { scheme.Encapsulate(pk) }}
	return unit, []operation{
		{"circl-ML-KEM-768/Encaps-from-bytes", 4, 1, func() {
			key, _ := scheme.UnmarshalBinaryPublicKey(packed)
			scheme.Encapsulate(key)
		}},
		{"circl-ML-KEM-768/Decaps-parsed", 4, 1, func() { scheme.Decapsulate(sk, ct) }},
		{"circl-ML-KEM-768/KeyGen", 4, 1, func() { scheme.GenerateKeyPair() }},
		{"crypto-mlkem-768/Encaps-parsed", 4, 1, func() { ek.Encapsulate() }},
		{"crypto-mlkem-768/Decaps-parsed", 4, 1, func() { dk.Decapsulate(ct) }},
		{"crypto-mlkem-768/KeyGen", 4, 1, func() { mlkem.GenerateKey768() }},
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
	encapsulations, decapsulations := make([]Encapsulation, 4), make([]Decapsulation, 4)
	for i := range 4 {
		encapsulations[i] = Encapsulation{Ciphertext: make([]byte, len(ct)), SharedKey: make([]byte, len(ss)), PublicKey: pk, Seed: seed}
		decapsulations[i] = Decapsulation{SharedKey: make([]byte, len(ss)), PrivateKey: sk, Ciphertext: ct}
	}
	return []operation{
		{s.name + "/Encaps-from-bytes", 8, 1, func() { s.EncapsulateBytes(ct, ss, pk, seed) }},
		{s.name + "/Encaps-parsed", 8, 1, func() { s.EncapsulateTo(ct, ss, key.(*PublicKey), seed) }},
		{s.name + "/Decaps-from-bytes", 4, 1, func() { s.DecapsulateBytes(ss, sk, ct) }},
		{s.name + "/Encaps-batch-of-4", 2, 4, func() { s.EncapsulateBatch(encapsulations) }},
		{s.name + "/Decaps-batch-of-4", 2, 4, func() { s.DecapsulateBatch(decapsulations) }},
		{s.name + "/KeyGen-batch-of-32", 1, MaxKeyGroup, func() { s.GenerateKeysBytes(sks, seeds) }},
		{s.name + "/KeyGen", 1, 1, func() { s.GenerateKeyBytes(other, keySeed) }},
	}
}
