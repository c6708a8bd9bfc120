//go:build amd64 && !noasm

package vec

import (
	"bytes"
	"crypto/sha3"
	"testing"

	"github.com/cloudflare/circl/simd/keccakf1600"
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

// TestPermuteOne compares the permutation of one state with that of four.
func TestPermuteOne(t *testing.T) {
	if !HasAVX2 {
		return // nothing here runs
	}
	source := newSource(t)
	var one, four Keccak4
	one.Init(false)
	four.Init(false)
	for range 1000 {
		for i := range one.state {
			one.state[i] = uint64(source.Uint32())<<32 | uint64(source.Uint32())
		}
		for lane := range 4 {
			*four.state = *one.state
			four.Permute()
			before := *one.state
			one.PermuteOne(lane)
			for i, got := range one.state {
				want := before[i]
				if i%4 == lane {
					want = four.state[i]
				}
				if got != want {
					t.Fatalf("lane %d, word %d of state %d: got %#x, want %#x", lane, i/4, i%4, got, want)
				}
			}
		}
	}
}

// BenchmarkPermute permutes four states, and one, beside circl's and the standard
// library's permutations.
func BenchmarkPermute(b *testing.B) {
	run := func(name string, f func()) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
		})
	}
	var k, wide Keccak4
	if HasAVX2 {
		k.Init(false)
		run("four/AVX2", k.Permute)
		run("one/BMI2", func() { k.PermuteOne(0) })
	}
	if HasAVX512 {
		wide.Init(true)
		run("four/AVX512", wide.Permute)
	}
	var x4 keccakf1600.StateX4
	x4.Initialize(false)
	run("four/circl", x4.Permute)
	var h sha3.SHAKE
	block := make([]byte, h.BlockSize())
	run("one/crypto-sha3", func() { h.Read(block) })
}
