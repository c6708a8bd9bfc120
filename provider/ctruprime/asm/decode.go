package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// decode writes the decoder of 16 E8 blocks at once, 128 coefficients: eight
// vectors in, eight bytes of message out. The portable decodeBlock explains
// the arithmetic; every comparison here is one of its masks.
func decode() {
	moduli = nil
	routine("decode", "func(out *byte, in *int16, table *int16, steps int)",
		"decode decodes 128 words a step, taken modulo 2^d, into eight bytes. The table holds",
		"2^d-1, 2^d/2 and 2^d/4. It needs AVX2.")
	out := Load(Param("out"), GP64())
	in := Load(Param("in"), GP64())
	table := Load(Param("table"), GP64())
	steps := Load(Param("steps"), GP64())
	signs := [2]Mem{constant(repeated(4, 0x00010001)), constant(repeated(4, 0x0001ffff))}

	// Two codes' sums of pairs do not fit the registers together: e is computed
	// for each.
	Label("step")
	a := decodePairs(in, table, signs[0])
	b := decodePairs(in, table, signs[1])
	better := YMM() // the second code is strictly better
	VPCMPGTW(a.score, b.score, better)
	var m [4]VecVirtual
	for _, i := range []int{0, 1, 3} {
		m[i] = YMM()
		VPBLENDVB(better, b.bits[i], a.bits[i], m[i])
	}
	// nibble = r | m0<<1 | (m0^m1)<<2 | m3<<3, from masks.
	nibble, t := YMM(), YMM()
	VPAND(word(1), better, nibble)
	VPAND(word(2), m[0], t)
	VPOR(t, nibble, nibble)
	VPXOR(m[0], m[1], t)
	VPAND(word(4), t, t)
	VPOR(t, nibble, nibble)
	VPAND(word(8), m[3], t)
	VPOR(t, nibble, nibble)
	// To bytes, in order, and two nibbles to a byte.
	VPSHUFB(constant(decodeOrder()), nibble, nibble)
	merge(nibble, out)
	ADDQ(U32(8*vectorSize), in)
	ADDQ(U32(8), out)
	DECQ(steps)
	JNE(LabelRef("step"))
	finish()
}

// A candidate is what one of the two codes makes of 16 blocks.
type candidate struct {
	bits  [4]VecVirtual // masks
	score VecVirtual
}

func decodePairs(in, table Register, signs Mem) candidate {
	packed := make([]VecVirtual, 4)
	for i := range packed {
		var d [2]VecVirtual
		for j := range d {
			e := YMM()
			VMOVDQU(at(in, vectorSize*(2*i+j)), e)
			VPAND(at(table, 0), e, e)
			VPSUBW(at(table, vectorSize), e, e)
			VPABSW(e, e)
			VPSUBW(at(table, 2*vectorSize), e, e)
			VPMADDWD(signs, e, e)
			d[j] = e
		}
		VPACKSSDW(d[1], d[0], d[0])
		packed[i] = d[0]
	}
	d := transpose(packed)

	keys := make([]VecVirtual, 4)
	c := candidate{score: YMM()}
	parity := YMM()
	for i := range d {
		c.bits[i], keys[i] = YMM(), YMM()
		VPSRAW(U8(15), d[i], c.bits[i])
		VPABSW(d[i], d[i])
		switch i {
		case 0:
			VMOVDQA(c.bits[0], parity)
			VMOVDQA(d[0], c.score)
		default:
			VPXOR(c.bits[i], parity, parity)
			VPADDW(d[i], c.score, c.score)
		}
		// The low two bits carry the position and settle ties.
		VPSLLW(U8(2), d[i], keys[i])
		if i > 0 {
			VPOR(word(i), keys[i], keys[i])
		}
	}
	weakest, t := YMM(), YMM()
	VPMINUW(keys[1], keys[0], weakest)
	VPMINUW(keys[3], keys[2], t)
	VPMINUW(t, weakest, weakest)
	for _, i := range []int{0, 1, 3} {
		u := YMM()
		VPCMPEQW(weakest, keys[i], u)
		VPAND(parity, u, u)
		VPXOR(u, c.bits[i], c.bits[i])
	}
	VPSRLW(U8(2), weakest, weakest)
	VPADDW(weakest, weakest, weakest)
	VPAND(parity, weakest, weakest)
	VPSUBW(weakest, c.score, c.score)
	return c
}

// transpose turns vectors of four blocks with four words each into vectors of
// one word of each of 16 blocks. Word 8*h+2*i+j of the result, h and j below 2
// and i below 4, is of the block in half h of vector i, the j-th there.
func transpose(v []VecVirtual) []VecVirtual {
	// Each half: words a0 a1 a2 a3 b0 b1 b2 b3.
	unpack := func(a, b VecVirtual, low, high func(...Op)) (VecVirtual, VecVirtual) {
		l, h := YMM(), YMM()
		low(b, a, l)
		high(b, a, h)
		return l, h
	}
	// a0 a0' a1 a1' ..., then b0 b0' b1 b1' ...
	ac0, bd0 := unpack(v[0], v[1], VPUNPCKLWD, VPUNPCKHWD)
	ac1, bd1 := unpack(v[2], v[3], VPUNPCKLWD, VPUNPCKHWD)
	// Pairs of blocks 0 and 1 of word 0, pairs of word 1, ...
	p0, q0 := unpack(ac0, bd0, VPUNPCKLDQ, VPUNPCKHDQ)
	p1, q1 := unpack(ac1, bd1, VPUNPCKLDQ, VPUNPCKHDQ)
	w0, w1 := unpack(p0, p1, VPUNPCKLQDQ, VPUNPCKHQDQ)
	w2, w3 := unpack(q0, q1, VPUNPCKLQDQ, VPUNPCKHQDQ)
	return []VecVirtual{w0, w1, w2, w3}
}

// decodeOrder picks the low bytes of the words of each half in the order of
// their blocks, as far as a half has them.
//
// Packing puts blocks 4i and 4i+2 (of vectors 2i and 2i+1) into the low half of
// packed vector i, 4i+1 and 4i+3 into its high half. After transposition word
// position 4*(i/2) + 2*j + i%2 of a half has the j-th block of vector i.
func decodeOrder() (b [32]byte) {
	for h := range 2 {
		for k := range 16 {
			b[16*h+k] = 0x80
		}
		for i := range 4 {
			for j := range 2 {
				word := 4*(i/2) + 2*j + i%2
				// Block 4i+2j+h: even blocks in the low half, odd ones in the
				// high half.
				b[16*h+2*i+j] = byte(2 * word)
			}
		}
	}
	return b
}

// merge writes eight bytes: low nibbles from the low half of x, high nibbles from
// its high half.
func merge(x VecVirtual, out Register) {
	high := XMM()
	VEXTRACTI128(U8(1), x, high)
	VPSLLW(U8(4), high, high)
	VPOR(high, x.AsX(), x.AsX())
	VMOVQ(x.AsX(), at(out, 0))
}
