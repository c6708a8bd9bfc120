package ctruprime

// Messages are coded in blocks of four bits, eight coefficients each, by the
// extended Hamming code [8, 4, 4] in the guise that makes the coefficients
// points of the lattice E8.

// codeword returns the codeword of the low four bits of nibble; bit j belongs
// to coefficient j of the block.
func codeword(nibble byte) byte {
	bit := func(k int) byte { return -(nibble >> k & 1) }
	return bit(0)&0x55 ^ bit(1)&0x0f ^ bit(2)&0x3c ^ bit(3)&0xf0
}

// decodeBlock returns the nibble whose codeword is nearest to the eight
// coefficients v, which are taken modulo 2^d. Of equally near ones it takes the
// one that the scheme's text prescribes.
//
// The cost of a bit is the squared distance of v from 0 or from 2^d/2, both
// modulo 2^d. With e = |v - 2^d/2| - 2^d/4 for v in [0, 2^d), the cost of a one
// is that of a zero plus 2^d * e, so all that is compared are sums and
// differences of the e: the scheme's delta_i are 2^d * |D_i| below, and its cost
// is a constant minus 2^(d-1) * score.
func decodeBlock(v *[8]int32, d uint) byte {
	half := int32(1) << (d & 15) >> 1
	var e [8]int32
	for j, x := range v {
		e[j] = abs(x&(2*half-1)-half) - half>>1
	}
	// r = 0: both bits of a pair are equal; negative sums speak for ones.
	word0, score0 := decodePairs(e[0]+e[1], e[2]+e[3], e[4]+e[5], e[6]+e[7])
	// r = 1: the bits of a pair differ.
	word1, score1 := decodePairs(e[1]-e[0], e[3]-e[2], e[5]-e[4], e[7]-e[6])

	r := (score0 - score1) >> 31 // all ones if r = 1 is strictly better
	m := word0 ^ (word0^word1)&r
	return byte((((m^m<<1)&3 | m>>1&4) << 1) | r&1)
}

// decodePairs decides one bit a pair, one where its D is negative, with even
// parity: if the bits have odd parity the least certain one, the first of
// those, is flipped. It returns the bits and their score: the sum of |D|, less
// twice that of a flipped bit.
func decodePairs(d0, d1, d2, d3 int32) (word, score int32) {
	a0, a1, a2, a3 := abs(d0), abs(d1), abs(d2), abs(d3)
	word = d0>>31&1 | d1>>31&2 | d2>>31&4 | d3>>31&8
	parity := (word ^ word>>1 ^ word>>2 ^ word>>3) & 1
	// The low two bits carry the position and settle ties.
	weakest := minimum(minimum(a0<<2, a1<<2|1), minimum(a2<<2|2, a3<<2|3))
	word ^= parity << (weakest & 3) // a shift's time does not depend on its count
	score = a0 + a1 + a2 + a3 - weakest>>2*2*parity
	return word, score
}

// abs returns |x| without a branch.
func abs(x int32) int32 {
	sign := x >> 31
	return x ^ sign - sign
}

// minimum returns the lesser of a and b without a branch, for |a - b| < 2^31.
func minimum(a, b int32) int32 {
	return b + (a-b)&((a-b)>>31)
}
