package ctruprime

import (
	"testing"

	"github.com/cloudflare/circl/kem"
	"github.com/cloudflare/circl/kem/mlkem/mlkem768"
)

// benchmarked are the schemes that the benchmarks run side by side.
func benchmarked() []kem.Scheme { return append(All(), mlkem768.Scheme()) }

func BenchmarkEncapsulate(b *testing.B) {
	for _, s := range benchmarked() {
		b.Run(s.Name(), func(b *testing.B) {
			pk, _, err := s.GenerateKeyPair()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := s.Encapsulate(pk); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecapsulate(b *testing.B) {
	for _, s := range benchmarked() {
		b.Run(s.Name(), func(b *testing.B) {
			pk, sk, err := s.GenerateKeyPair()
			if err != nil {
				b.Fatal(err)
			}
			ct, _, err := s.Encapsulate(pk)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Decapsulate(sk, ct); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkGenerateKeyPair(b *testing.B) {
	for _, s := range benchmarked() {
		b.Run(s.Name(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := s.GenerateKeyPair(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
