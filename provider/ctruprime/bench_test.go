package ctruprime

import (
	"crypto/mlkem"
	"crypto/rand"
	"testing"

	"github.com/cloudflare/circl/kem"
	"github.com/cloudflare/circl/kem/mlkem/mlkem768"
)

// The benchmarks run beside circl's ML-KEM-768, so that their ratios can be
// taken from one run.

// benchmarked are the schemes that the benchmarks run side by side.
func benchmarked() []kem.Scheme { return append(All(), mlkem768.Scheme()) }

// must ends a benchmark with an error.
func must(b *testing.B, err error) {
	if err != nil {
		b.Fatal(err)
	}
}

func BenchmarkEncapsulate(b *testing.B) {
	for _, s := range benchmarked() {
		b.Run(s.Name(), func(b *testing.B) {
			pk, _, err := s.GenerateKeyPair()
			must(b, err)
			b.ReportAllocs()
			for b.Loop() {
				_, _, err := s.Encapsulate(pk)
				must(b, err)
			}
		})
	}
}

func BenchmarkDecapsulate(b *testing.B) {
	for _, s := range benchmarked() {
		b.Run(s.Name(), func(b *testing.B) {
			pk, sk, err := s.GenerateKeyPair()
			must(b, err)
			ct, _, err := s.Encapsulate(pk)
			must(b, err)
			b.ReportAllocs()
			for b.Loop() {
				_, err := s.Decapsulate(sk, ct)
				must(b, err)
			}
		})
	}
}

func BenchmarkGenerateKeyPair(b *testing.B) {
	for _, s := range benchmarked() {
		b.Run(s.Name(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _, err := s.GenerateKeyPair()
				must(b, err)
			}
		})
	}
}

// BenchmarkEncapsulateBytes encapsulates to packed keys, which ML-KEM-768 has to
// parse first.
func BenchmarkEncapsulateBytes(b *testing.B) {
	for _, s := range allSchemes {
		b.Run(s.Name(), func(b *testing.B) {
			sk, ct, ss, seed := benchmarkBuffers(b, s)
			b.ReportAllocs()
			for b.Loop() {
				must(b, s.EncapsulateBytes(ct, ss, s.PublicKeyOf(sk), seed))
			}
		})
	}
	s := mlkem768.Scheme()
	b.Run(s.Name(), func(b *testing.B) {
		pk, _, err := s.GenerateKeyPair()
		must(b, err)
		packed, err := pk.MarshalBinary()
		must(b, err)
		b.ReportAllocs()
		for b.Loop() {
			pk, err := s.UnmarshalBinaryPublicKey(packed)
			must(b, err)
			_, _, err = s.Encapsulate(pk)
			must(b, err)
		}
	})
}

// BenchmarkStandardLibrary is crypto/mlkem's ML-KEM-768, which crypto/tls uses:
// encapsulation to a packed key, and what a client does.
func BenchmarkStandardLibrary(b *testing.B) {
	dk, err := mlkem.GenerateKey768()
	must(b, err)
	packed := dk.EncapsulationKey().Bytes()
	_, ct := dk.EncapsulationKey().Encapsulate()
	b.Run("EncapsulateBytes/crypto-mlkem-768", func(b *testing.B) {
		for b.Loop() {
			ek, err := mlkem.NewEncapsulationKey768(packed)
			must(b, err)
			ek.Encapsulate()
		}
	})
	b.Run("Decapsulate/crypto-mlkem-768", func(b *testing.B) {
		for b.Loop() {
			_, err := dk.Decapsulate(ct)
			must(b, err)
		}
	})
	b.Run("GenerateKey/crypto-mlkem-768", func(b *testing.B) {
		for b.Loop() {
			_, err := mlkem.GenerateKey768()
			must(b, err)
		}
	})
}

// BenchmarkDecapsulateBytes decapsulates with packed keys.
func BenchmarkDecapsulateBytes(b *testing.B) {
	for _, s := range allSchemes {
		b.Run(s.Name(), func(b *testing.B) {
			sk, ct, ss, seed := benchmarkBuffers(b, s)
			must(b, s.EncapsulateBytes(ct, ss, s.PublicKeyOf(sk), seed))
			b.ReportAllocs()
			for b.Loop() {
				must(b, s.DecapsulateBytes(ss, sk, ct))
			}
		})
	}
}

// BenchmarkGenerateKeysBytes generates full groups; ns/key is the time of one.
func BenchmarkGenerateKeysBytes(b *testing.B) {
	for _, s := range allSchemes {
		b.Run(s.Name(), func(b *testing.B) {
			sks, seeds := make([][]byte, MaxKeyGroup), make([][]byte, MaxKeyGroup)
			for i := range sks {
				sks[i], seeds[i] = make([]byte, s.PrivateKeySize()), make([]byte, KeySeedSize)
				rand.Read(seeds[i])
			}
			b.ReportAllocs()
			for b.Loop() {
				must(b, s.GenerateKeysBytes(sks, seeds))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/MaxKeyGroup, "ns/key")
		})
	}
}

// benchmarkBuffers returns a fresh packed private key, a seed, and room for
// results.
func benchmarkBuffers(b *testing.B, s *Scheme) (sk, ct, ss, seed []byte) {
	sk, seed = make([]byte, s.PrivateKeySize()), make([]byte, EncapsulationSeedSize)
	keySeed := make([]byte, KeySeedSize)
	rand.Read(keySeed)
	rand.Read(seed)
	must(b, s.GenerateKeyBytes(sk, keySeed))
	return sk, make([]byte, s.CiphertextSize()), make([]byte, SharedKeySize), seed
}

// BenchmarkParts runs the parts that operations are made of.
func BenchmarkParts(b *testing.B) {
	for _, s := range allSchemes {
		p := &s.parameters
		w, d := newWorkspace(p), newDivision(p)
		sk, ct, _, seed := benchmarkBuffers(b, s)
		pk := s.PublicKeyOf(sk)
		rand.Read(w.coins)
		rand.Read(w.message)
		p.unpackPublicKey(w.large, pk)
		p.forward(w.key, w.large)
		inverse := make(poly, p.half)
		for _, part := range []struct {
			name string
			f    func()
		}{
			{"forward", func() { p.forward(w.key, w.large) }},
			{"pointwise", func() { p.pointwise(w.product, w.key, w.key) }},
			{"inverse", func() { p.inverse(w.product) }},
			{"fold", func() { p.fold(w.product) }},
			{"sample", func() { p.sample(w.small, w.coins) }},
			{"encode", func() { p.encode(ct, w.product, w.message) }},
			{"decode", func() { p.decode(w.message, w.product) }},
			{"unpackPublicKey", func() { p.unpackPublicKey(w.large, pk) }},
			{"packPublicKey", func() { p.packPublicKey(pk, w.product) }},
			{"unpackCiphertext", func() { p.unpackCiphertext(w.large, ct) }},
			{"unpackPrivatePoly", func() { p.unpackPrivatePoly(w.small, sk) }},
			{"expandCoins", func() { w.expand(w.coins[:p.coinSize], seed) }},
			{"deriveKey", func() { w.deriveKey(pk) }},
			{"invertPoly", func() { p.invertPoly(inverse, w.small, d) }},
		} {
			b.Run(part.name+"/"+s.name, func(b *testing.B) {
				for b.Loop() {
					part.f()
				}
			})
		}
	}
}
