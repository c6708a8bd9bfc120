package ctruprime

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// BenchmarkTimingStatistic prints, for each operation and level, Welch's t of its
// times for one fixed secret against fresh ones, the slowest tenth of each left
// out, as dudect (Reparaz, Balasch, Verbauwhede, DATE 2017) does: beyond 10 or
// so, again and again, something leaks. The last but one row
// of each level is a planted leak. The statistic decides nothing: what is constant
// time is shown by scripts/taint.sh and by package vec's tests.
func BenchmarkTimingStatistic(b *testing.B) {
	r := newRandom(b)
	for _, level := range Levels() {
		s := at(b, scheme761, level)
		fixed, _ := r.newKey(b, s)
		ct, ss := make([]byte, s.CiphertextSize()), make([]byte, SharedKeySize)
		bad := r.bytes(s.CiphertextSize())
		must(b, s.EncapsulateBytes(ct, ss, s.PublicKeyOf(fixed), make([]byte, EncapsulationSeedSize)))
		generated := make([]byte, s.PrivateKeySize())
		pk := s.PublicKeyOf(fixed)

		for _, o := range []struct {
			name  string
			fixed []byte
			f     func(input []byte)
		}{
			{"encapsulate, a seed", make([]byte, EncapsulationSeedSize), func(seed []byte) { s.EncapsulateBytes(bad, ss, pk, seed) }},
			{"decapsulate, a good ciphertext or a bad one", ct, func(ct []byte) { s.DecapsulateBytes(ss, fixed, ct) }},
			{"a planted leak", make([]byte, 64), func(secret []byte) { plantedLoop(secret, ss) }},
			{"generate, a seed", make([]byte, KeySeedSize), func(seed []byte) { s.GenerateKeyBytes(generated, seed) }},
		} {
			fmt.Printf("%-10v %-46s t = %6.2f\n", level, o.name, welch(r, o.fixed, o.f))
		}
	}
}

// plantedLoop hashes as often as the secret's first byte says.
func plantedLoop(secret, out []byte) {
	for range secret[0] {
		h := sha256.Sum256(out)
		copy(out, h[:])
	}
}

// welch measures a thousand runs or more of each class, in random order. The
// classes differ in what is in one buffer alone.
func welch(r random, fixed []byte, f func(input []byte)) float64 {
	input := make([]byte, len(fixed))
	var times [2][]float64
	for len(times[0]) < 1000 || len(times[1]) < 1000 {
		class := r.below(2)
		classes := [2][]byte{fixed, r.bytes(len(fixed))}
		copy(input, classes[class])
		start := time.Now()
		f(input)
		times[class] = append(times[class], float64(time.Since(start)))
	}
	limit := percentile(append(append([]float64(nil), times[0]...), times[1]...), 0.9)
	var mean, variance, count [2]float64
	for class, all := range times {
		for _, x := range all {
			if x <= limit {
				count[class]++
				mean[class] += x
				variance[class] += x * x
			}
		}
		mean[class] /= count[class]
		variance[class] = variance[class]/count[class] - mean[class]*mean[class]
	}
	return (mean[0] - mean[1]) / math.Sqrt(variance[0]/count[0]+variance[1]/count[1])
}

func percentile(all []float64, p float64) float64 {
	slices.Sort(all)
	return all[int(p*float64(len(all)-1))]
}
