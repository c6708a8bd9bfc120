package ctruprime

import "math/bits"

// Two moduli occur here. q is the scheme's; the transform works modulo Q, a
// prime large enough that the integer coefficients of every product that the
// scheme needs lie strictly between -Q/2 and Q/2, so that they can be read
// off their residues.

const (
	// modulus is Q = 2^25 - 2^12 + 1, which has roots of unity of order 512.
	modulus = 1<<25 - 1<<12 + 1
	// modulusInverse is Q^-1 mod 2^64.
	modulusInverse = 0x4ffeffcfff001001
	// rootOfUnity has order 512 modulo Q.
	rootOfUnity = 8433925
)

// residue reads a sum p of products as a residue. It returns
// -p * 2^-64 mod Q with absolute value <= (Q+1)/2, for any |p| < 2^62.
//
// This is Plantard's reduction ("Efficient word size modular arithmetic",
// 2021) in the signed form of Huang et al. (TCHES 2022/4), with a word of 32
// bits: two multiplications, and no restriction on p that lazy sums could come
// near. Why it is right: let m = p*Q^-1 mod 2^64, signed, and
// m = m1*2^32 + m0 with 0 <= m0 < 2^32. Then m*Q = p + k*2^64 for the k that we
// want, |k| <= Q/2 + 1/2, and
//
//	(m1+64)*Q / 2^32 = k + (p + (2^38 - m0)*Q) / 2^64,
//
// where the last term lies in [0, 1) because 63*2^32*Q > 2^62 and
// 2^38*Q < 2^63.
func residue(p int64) int64 {
	m := p * modulusInverse
	return ((m>>32 + 64) * modulus) >> 32
}

// factor is a constant w prepared for multiplication modulo Q: the product
// of Q^-1 and the centred residue of -w * 2^64, modulo 2^64.
type factor int64

// newFactor prepares w, 0 <= w < Q. w is public: it divides.
func newFactor(w uint64) factor {
	r := new64Residue(w)
	if r > modulus/2 {
		r -= modulus
	}
	return factor(r * modulusInverse)
}

// new64Residue returns -w * 2^64 mod Q, for a public w < Q.
func new64Residue(w uint64) int64 {
	_, rem := bits.Div64((modulus-w)%modulus, 0, modulus)
	return int64(rem)
}

// mul returns a*w mod Q with absolute value <= (Q+1)/2, for |a| < 2^38.
func mul(a int64, w factor) int64 {
	return ((a*int64(w))>>32 + 64) * modulus >> 32
}

// Quotients by q are multiplications by ceil(2^64/q), exact for dividends below
// 2^51: a division instruction takes a time that depends on its operands,
// and whether a compiler replaces x/q depends on the compiler.

// reduce sets out to in mod q, each in [0, q), for |in[j]| <= 2^26.
func (p *parameters) reduce(out *[8]uint16, in *[8]int32) {
	lift, recip, q := p.lift, p.recip, uint32(p.q)
	for j, x := range in {
		y := uint32(x + lift)
		quotient, _ := bits.Mul64(uint64(y), recip)
		out[j] = uint16(y - uint32(quotient)*q)
	}
}

// compress sets out[j] to floor((s*2^d + floor(q/2)) / q) mod 2^d, where s is
// in[j] mod q in [0, q), for |in[j]| <= 2^26; it then adds 2^d/2 modulo
// 2^d if bit j of word is one.
//
// Adding q to in[j] adds 2^d to the quotient, so in[j] need not be reduced.
func (p *parameters) compress(out *[8]uint16, in *[8]int32, word uint16) {
	lift, recip, round, d := p.lift, p.recip, uint64(p.q/2), p.d&15
	mask := uint16(1)<<d - 1
	half := uint16(1) << d >> 1
	for j, x := range in {
		quotient, _ := bits.Mul64(uint64(x+lift)<<d+round, recip)
		out[j] = uint16(quotient)&mask ^ half&-(word&1)
		word >>= 1
	}
}

// centre returns the representative of x in [-(q-1)/2, (q-1)/2], for x in
// [0, q).
func (p *parameters) centre(x int32) int32 {
	return x - p.q&((p.q/2-x)>>31)
}

// modQ returns x mod q.
func (p *parameters) modQ(x uint32) uint32 {
	quotient, _ := bits.Mul64(uint64(x), p.recip)
	return x - uint32(quotient)*uint32(p.q)
}

// invert returns x^-1 mod q, for x in [0, q); the inverse of 0 is 0. It raises
// x to the power q-2, whose bits are public.
func (p *parameters) invert(x uint32) uint32 {
	r := uint32(1)
	for k := bits.Len32(uint32(p.q)) - 1; k >= 0; k-- {
		r = p.modQ(r * r)
		if (p.q-2)>>k&1 == 1 {
			r = p.modQ(r * x)
		}
	}
	return r
}
