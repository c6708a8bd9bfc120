//go:build amd64 && !noasm

package vec

import (
	"bytes"
	"crypto/sha3"
	"testing"
)

// TestKeccak hashes inputs of every length in four lanes, with each
// permutation that the processor has.
func TestKeccak(t *testing.T) {
	if !HasAVX2 {
		return // nothing here runs
	}
	const rate = 136
	source := newSource(t)
	for _, wide := range []bool{false, true} {
		if wide && !HasAVX512 {
			continue
		}
		var k Keccak4
		k.Init(wide)
		for length := range 3 * rate {
			k.Reset()
			var in [4][]byte
			for lane := range in {
				in[lane] = make([]byte, length)
				for i := range in[lane] {
					in[lane][i] = byte(source.Uint32())
				}
			}
			rest := in
			for ; len(rest[0]) >= rate; k.Permute() {
				for lane := range rest {
					k.Absorb(lane, rest[lane][:rate])
					rest[lane] = rest[lane][rate:]
				}
			}
			for lane := range rest {
				k.AbsorbLast(lane, rate, 0x1f, rest[lane])
			}
			k.Permute()
			for lane := range in {
				got := make([]byte, length%rate)
				k.Squeeze(lane, got)
				if want := sha3.SumSHAKE256(in[lane], len(got)); !bytes.Equal(got, want) {
					t.Fatalf("wide %v, lane %d, %d bytes: got %x, want %x", wide, lane, length, got, want)
				}
			}
		}
	}
}

// BenchmarkPermute permutes four states.
func BenchmarkPermute(b *testing.B) {
	for _, wide := range []bool{false, true} {
		if wide && !HasAVX512 {
			continue
		}
		b.Run(map[bool]string{false: "AVX2", true: "AVX512"}[wide], func(b *testing.B) {
			var k Keccak4
			k.Init(wide)
			for b.Loop() {
				k.Permute()
			}
		})
	}
}
