package ctruprime

import (
	"bytes"
	"crypto/rand"
	"testing"
)

// TestBatchEqualsSingle generates groups of every interesting size and each of
// their keys alone.
func TestBatchEqualsSingle(t *testing.T) {
	for _, s := range allSchemes {
		t.Run(s.Name(), func(t *testing.T) {
			for _, count := range []int{0, 1, 2, MaxKeyGroup - 1, MaxKeyGroup, MaxKeyGroup + 1} {
				sks, seeds := make([][]byte, count), make([][]byte, count)
				for i := range sks {
					sks[i], seeds[i] = make([]byte, s.PrivateKeySize()), make([]byte, KeySeedSize)
					rand.Read(seeds[i])
				}
				if err := s.GenerateKeysBytes(sks, seeds); err != nil {
					t.Fatal(err)
				}
				want := make([]byte, s.PrivateKeySize())
				for i := range sks {
					if err := s.GenerateKeyBytes(want, seeds[i]); err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(sks[i], want) {
						t.Fatalf("key %d of %d, seed %x: got %x, want %x", i, count, seeds[i], sks[i], want)
					}
				}
			}
		})
	}
}

func BenchmarkGenerateKeys(b *testing.B) {
	for _, s := range allSchemes {
		b.Run(s.Name(), func(b *testing.B) {
			sks, seeds := make([][]byte, MaxKeyGroup), make([][]byte, MaxKeyGroup)
			for i := range sks {
				sks[i], seeds[i] = make([]byte, s.PrivateKeySize()), make([]byte, KeySeedSize)
				rand.Read(seeds[i])
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := s.GenerateKeysBytes(sks, seeds); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/MaxKeyGroup, "ns/key")
		})
	}
}
