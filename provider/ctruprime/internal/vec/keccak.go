//go:build amd64 && !noasm

package vec

import "unsafe"

// Keccak4 is four states of Keccak-f[1600] that are permuted together. It must
// be initialised and not be copied. It is made for inputs of public length.
type Keccak4 struct {
	state *[100]uint64 // word i of state j is state[4*i+j]
	wide  bool
}

// Init makes it ready; avx512 chooses the permutation for AVX-512.
func (k *Keccak4) Init(avx512 bool) {
	const words = len(k.state)
	buffer := make([]uint64, words+3)
	// No vector then straddles two cache lines.
	skip := -uintptr(unsafe.Pointer(&buffer[0])) % (2 * lanes) / 8
	k.state = (*[words]uint64)(buffer[skip:])
	k.wide = avx512
}

// Reset zeroes all four states.
func (k *Keccak4) Reset() { clear(k.state[:]) }

// Permute permutes all four states.
func (k *Keccak4) Permute() {
	if k.wide {
		permuteAVX512(k.state, &roundConstants)
		return
	}
	permuteAVX2(k.state, &roundConstants)
}

// PermuteOne permutes one state. The others are permuted too where all four take
// no longer, and left alone elsewhere.
func (k *Keccak4) PermuteOne(lane int) {
	if k.wide {
		k.Permute()
		return
	}
	permuteOne(&k.state[lane&3], &roundConstants)
}

// Absorb adds a block to a state. Its length is a multiple of eight, up to 200.
func (k *Keccak4) Absorb(lane int, block []byte) {
	if words := len(block) / 8; words > 0 {
		_ = k.state[4*(words-1)+lane]
		absorb(&k.state[lane], &block[0], words)
	}
}

// AbsorbLast adds what remains of an input, less than rate bytes, and the padding
// with a domain separation byte.
func (k *Keccak4) AbsorbLast(lane, rate int, domain byte, rest []byte) {
	whole := len(rest) &^ 7
	k.Absorb(lane, rest[:whole])
	last := uint64(domain) << (8 * (len(rest) - whole))
	for i, x := range rest[whole:] {
		last |= uint64(x) << (8 * i)
	}
	k.state[4*(whole/8)+lane] ^= last
	k.state[4*(rate/8-1)+lane] ^= 1 << 63
}

// Clear zeroes one state.
func (k *Keccak4) Clear(lane int) {
	for i := lane; i < len(k.state); i += 4 {
		k.state[i] = 0
	}
}

// Squeeze reads from the beginning of a state, up to its 200 bytes.
func (k *Keccak4) Squeeze(lane int, out []byte) {
	words := len(out) / 8
	if words > 0 {
		_ = k.state[4*(words-1)+lane]
		squeeze(&out[0], &k.state[lane], words)
	}
	if rest := out[8*words:]; len(rest) > 0 {
		x := k.state[4*words+lane]
		for i := range rest {
			rest[i] = byte(x >> (8 * i))
		}
	}
}

// roundConstants are those of FIPS 202, section 3.2.5.
var roundConstants = newRoundConstants()

// newRoundConstants runs the shift register that defines them.
func newRoundConstants() (constants [24]uint64) {
	bit := func(t int) uint64 {
		r := 1
		for range t % 255 {
			r <<= 1
			if r&0x100 != 0 {
				r ^= 0x171
			}
		}
		return uint64(r & 1)
	}
	for round := range constants {
		for j := range 7 {
			constants[round] |= bit(j+7*round) << (1<<j - 1)
		}
	}
	return constants
}
