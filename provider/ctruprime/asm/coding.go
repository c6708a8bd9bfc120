package main

import (
	"encoding/binary"
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Coins, keys and ciphertexts: sampling, packing and unpacking, compression.
// Sixteen values of b bits are 2b bytes.

func coding() {
	moduli = nil
	sampleTwo()
	sampleThree()
	unpackKey()
	for _, b := range []int{10, 11} {
		unpackCentred(b)
		compress(b)
	}
	packKey()
	codewords()
	packSecret()
	unpackSecret()
	difference()
}

// constant is memory with 32 bytes, which the file holds once.
func constant(bytes [32]byte) Mem {
	if m, ok := written[bytes]; ok {
		return m
	}
	m := GLOBL(fmt.Sprintf("constant%d", len(written)), RODATA|NOPTR)
	for i := 0; i < len(bytes); i += 8 {
		DATA(i, U64(binary.LittleEndian.Uint64(bytes[i:])))
	}
	written[bytes] = m
	return m
}

var written = map[[32]byte]Mem{}

// vectorOf is a register with constant bytes.
func vectorOf(bytes [32]byte) VecVirtual {
	r := YMM()
	VMOVDQU(constant(bytes), r)
	return r
}

// repeated returns 32 bytes that repeat an element of so many bytes.
func repeated(size int, element uint64) (b [32]byte) {
	for i := range b {
		b[i] = byte(element >> (8 * (i % size)))
	}
	return b
}

func words(element int) VecVirtual    { return vectorOf(repeated(2, uint64(element))) }
func bytesOf(element int) VecVirtual  { return vectorOf(repeated(1, uint64(element))) }
func longs(element uint32) VecVirtual { return vectorOf(repeated(4, uint64(element))) }

// word is words in memory.
func word(element int) Mem { return constant(repeated(2, uint64(element))) }

func sampleTwo() {
	routine("sample2", "func(out *int16, coins *byte, steps int)",
		"sample2 turns 32 bytes a step into 64 coefficients: each the sum of two bits less",
		"that of the next two. It needs AVX2.")
	out := Load(Param("out"), GP64())
	coins := Load(Param("coins"), GP64())
	steps := Load(Param("steps"), GP64())
	ones, pairs := bytesOf(0x55), bytesOf(0x33)
	four, nibble := bytesOf(0x44), bytesOf(0x0f)
	bias := words(4)
	Label("step")
	t, u := YMM(), YMM()
	VMOVDQU(at(coins, 0), t)
	VPSRLW(U8(1), t, u)
	VPAND(ones, t, t)
	VPAND(ones, u, u)
	VPADDB(u, t, t) // pairs of bits: sums of two
	VPSRLW(U8(2), t, u)
	VPAND(pairs, t, t)
	VPAND(pairs, u, u)
	VPADDB(four, t, t)
	VPSUBB(u, t, t) // nibbles: 4 + difference
	low, high := YMM(), YMM()
	VPAND(nibble, t, low)
	VPSRLW(U8(4), t, high)
	VPAND(nibble, high, high)
	even, odd := YMM(), YMM()
	VPUNPCKLBW(high, low, even)
	VPUNPCKHBW(high, low, odd)
	for i, half := range []VecVirtual{even, odd, even, odd} {
		x := YMM()
		part := half
		if i >= 2 {
			part = YMM()
			VEXTRACTI128(U8(1), half, part.AsX())
		}
		VPMOVZXBW(part.AsX(), x)
		VPSUBW(bias, x, x)
		store(x, at(out, vectorSize*i))
	}
	ADDQ(U32(4*vectorSize), out)
	ADDQ(U32(vectorSize), coins)
	DECQ(steps)
	JNE(LabelRef("step"))
	finish()
}

func sampleThree() {
	routine("sample3", "func(out *int16, coins *byte, steps int)",
		"sample3 turns 24 bytes a step, of which it reads 32, into 32 coefficients: each the",
		"sum of three bits less that of the next three. It needs AVX2.")
	out := Load(Param("out"), GP64())
	coins := Load(Param("coins"), GP64())
	steps := Load(Param("steps"), GP64())
	var spread [32]byte // three bytes of each 12 to a word of four
	for i := range spread {
		spread[i] = 0x80
		if i%4 < 3 {
			spread[i] = byte(i%16/4*3 + i%4)
		}
	}
	shuffle := vectorOf(spread)
	ones, triples := longs(0x249249), longs(0x1c71c7)
	three := longs(0x0c30c3)
	low6, high6 := longs(0x3f), longs(0x3f0000)
	bias := words(3)
	Label("step")
	t, u, v := YMM(), YMM(), YMM()
	VMOVDQU(at(coins, 0), t.AsX())
	VINSERTI128(U8(1), at(coins, 12), t, t)
	VPSHUFB(shuffle, t, t)
	VPSRLD(U8(1), t, u)
	VPSRLD(U8(2), t, v)
	VPAND(ones, t, t)
	VPAND(ones, u, u)
	VPAND(ones, v, v)
	VPADDD(u, t, t)
	VPADDD(v, t, t) // triples of bits: sums of three
	VPSRLD(U8(3), t, u)
	VPAND(triples, t, t)
	VPAND(triples, u, u)
	VPADDD(three, t, t)
	VPSUBD(u, t, t) // six bits each: 3 + difference
	var pair [2]VecVirtual
	for i := range pair {
		a, b := YMM(), YMM()
		if i == 1 {
			VPSRLD(U8(12), t, t)
		}
		VPAND(low6, t, a)
		VPSLLD(U8(10), t, b)
		VPAND(high6, b, b)
		VPOR(b, a, a)
		VPSUBW(bias, a, a)
		pair[i] = a
	}
	low, high := YMM(), YMM()
	VPUNPCKLDQ(pair[1], pair[0], low)
	VPUNPCKHDQ(pair[1], pair[0], high)
	first, second := swapHalves(value{low, nil}, value{high, nil})
	store(first.VecVirtual, at(out, 0))
	store(second.VecVirtual, at(out, vectorSize))
	ADDQ(U32(2*vectorSize), out)
	ADDQ(U32(24), coins)
	DECQ(steps)
	JNE(LabelRef("step"))
	finish()
}

// An unpacker reads 16 values of b bits.
type unpacker struct {
	b                    int
	shuffle, shift, mask VecVirtual
}

func newUnpacker(b int) unpacker {
	var shuffle, shift [32]byte
	for k := range 8 {
		bit := b * k
		for j := range 3 {
			shuffle[4*k+j] = byte(bit/8 + j)
		}
		shuffle[4*k+3] = 0x80
		shift[4*k] = byte(bit % 8)
	}
	return unpacker{b,
		vectorOf(shuffle),
		vectorOf(shift),
		longs(1<<b - 1)}
}

func (u unpacker) read(in Register) VecVirtual {
	var half [2]VecVirtual
	for i := range half {
		x := YMM()
		VBROADCASTI128(at(in, u.b*i), x)
		VPSHUFB(u.shuffle, x, x)
		VPSRLVD(u.shift, x, x)
		VPAND(u.mask, x, x)
		half[i] = x
	}
	x := YMM()
	VPACKUSDW(half[1], half[0], x)
	VPERMQ(U8(0xd8), x, x)
	return x
}

func unpackKey() {
	routine("unpack13", "func(out *int16, in *byte, table *int16, vectors int) uint32",
		"unpack13 reads 26 bytes a vector, and three beyond the last, as 16 values of 13",
		"bits and centres them: the table holds q-1, q/2 and q. It returns zero if all",
		"are below q. It needs AVX2.")
	out := Load(Param("out"), GP64())
	in := Load(Param("in"), GP64())
	table := Load(Param("table"), GP64())
	vectors := Load(Param("vectors"), GP64())
	u := newUnpacker(13)
	top, half, q, excess := YMM(), YMM(), YMM(), YMM()
	VMOVDQU(at(table, 0), top)
	VMOVDQU(at(table, vectorSize), half)
	VMOVDQU(at(table, 2*vectorSize), q)
	VPXOR(excess, excess, excess)
	Label("vector")
	x := u.read(in)
	t := YMM()
	VPCMPGTW(top, x, t)
	VPOR(t, excess, excess)
	VPCMPGTW(half, x, t)
	VPAND(q, t, t)
	VPSUBW(t, x, x)
	store(x, at(out, 0))
	ADDQ(U32(vectorSize), out)
	ADDQ(U32(26), in)
	DECQ(vectors)
	JNE(LabelRef("vector"))
	r := GP32()
	VPMOVMSKB(excess, r)
	Store(r, ReturnIndex(0))
	finish()
}

func unpackCentred(b int) {
	name := fmt.Sprintf("unpack%d", b)
	routine(name, "func(out *int16, in *byte, vectors int)",
		fmt.Sprintf("%s reads %d bytes a vector, and %d beyond the last, as 16 values of %d bits,", name, 2*b, 16-b, b),
		"two's complement. It needs AVX2.")
	out := Load(Param("out"), GP64())
	in := Load(Param("in"), GP64())
	vectors := Load(Param("vectors"), GP64())
	u := newUnpacker(b)
	Label("vector")
	x := u.read(in)
	VPSLLW(U8(16-b), x, x)
	VPSRAW(U8(16-b), x, x)
	store(x, at(out, 0))
	ADDQ(U32(vectorSize), out)
	ADDQ(U32(2*b), in)
	DECQ(vectors)
	JNE(LabelRef("vector"))
	finish()
}

// A packer writes 16 values of b bits.
type packer struct {
	b                   int
	join, align, spread VecVirtual
}

func newPacker(b int) packer {
	return packer{b,
		longs(1<<(16+b) | 1),
		vectorOf(repeated(8, uint64(32-2*b))),
		vectorOf(sixteen(64 - 4*b))}
}

// sixteen is 0 and n in the two words of 64 bits of each half.
func sixteen(n int) (b [32]byte) {
	b[8], b[24] = byte(n), byte(n)
	return b
}

// write needs values below 2^b. It writes 16-b bytes beyond its 2b.
func (p packer) write(x VecVirtual, out Register) {
	VPMADDWD(p.join, x, x) // 2b bits in 32
	VPSLLVD(p.align, x, x)
	VPSRLQ(U8(32-2*p.b), x, x) // 4b bits in 64
	upper := YMM()
	VPSRLDQ(U8(8), x, upper)
	VPSLLQ(U8(4*p.b), upper, upper)
	VPSRLVQ(p.spread, x, x)
	VPOR(upper, x, x) // 8b bits in 128
	VMOVDQU(x.AsX(), at(out, 0))
	VEXTRACTI128(U8(1), x, at(out, p.b))
}

func packKey() {
	routine("pack13", "func(out *byte, in *int16, table *int16, vectors int)",
		"pack13 writes 26 bytes a vector, and three beyond the last: in mod q in [0, q). The",
		"table holds q and round(2^15/q). It needs AVX2.")
	out := Load(Param("out"), GP64())
	in := Load(Param("in"), GP64())
	table := Load(Param("table"), GP64())
	vectors := Load(Param("vectors"), GP64())
	q, reciprocal := YMM(), YMM()
	VMOVDQU(at(table, 0), q)
	VMOVDQU(at(table, vectorSize), reciprocal)
	p := newPacker(13)
	Label("vector")
	x, t := YMM(), YMM()
	VMOVDQU(at(in, 0), x)
	VPMULHRSW(reciprocal, x, t)
	VPMULLW(q, t, t)
	VPSUBW(t, x, x) // |x| < q
	VPSRAW(U8(15), x, t)
	VPAND(q, t, t)
	VPADDW(t, x, x)
	p.write(x, out)
	ADDQ(U32(vectorSize), in)
	ADDQ(U32(26), out)
	DECQ(vectors)
	JNE(LabelRef("vector"))
	finish()
}

// compress writes floor((x*2^d + floor(q/2))/q) + 2^d/2 * bit mod 2^d, which is
// x*2^d/q rounded to the nearest: q is odd, so there are no ties.
//
// The first guess c, of x times round(2^(15+d)/q) by VPMULHRSW, is wrong by less
// than one; x*2^d - c*q, which is below 2^15 in absolute value and so known
// from its low 16 bits, says which way.
func compress(d int) {
	name := fmt.Sprintf("compress%d", d)
	routine(name, "func(out *byte, in *int16, words *byte, table *int16, vectors int)",
		fmt.Sprintf("%s compresses words in, |in[i]| < 3q, to %d bits each, adds the codewords and packs", name, d),
		fmt.Sprintf("them: %d bytes a vector, and %d beyond the last. The table holds round(2^%d/q), q, q/2", 2*d, 16-d, 15+d),
		"and -q/2. It needs AVX2.")
	out := Load(Param("out"), GP64())
	in := Load(Param("in"), GP64())
	code := Load(Param("words"), GP64())
	table := Load(Param("table"), GP64())
	vectors := Load(Param("vectors"), GP64())
	factor, q, half, minusHalf := YMM(), YMM(), YMM(), YMM()
	for i, r := range []VecVirtual{factor, q, half, minusHalf} {
		VMOVDQU(at(table, vectorSize*i), r)
	}
	var bits [32]byte
	for i := range 16 {
		bits[2*i+i/8] = 1 << (i % 8)
	}
	bit := vectorOf(bits)
	top, mask := words(1<<(d-1)), words(1<<d-1)
	p := newPacker(d)
	Label("vector")
	x, c, t := YMM(), YMM(), YMM()
	VMOVDQU(at(in, 0), x)
	VPMULHRSW(factor, x, c)
	VPSLLW(U8(d), x, x)
	VPMULLW(q, c, t)
	VPSUBW(t, x, x) // the remainder
	VPCMPGTW(half, x, t)
	VPSUBW(t, c, c)
	VPCMPGTW(x, minusHalf, t)
	VPADDW(t, c, c)
	w := YMM()
	VPBROADCASTW(at(code, 0), w)
	VPAND(bit, w, w)
	VPCMPEQW(bit, w, w)
	VPAND(top, w, w)
	VPADDW(w, c, c)
	VPAND(mask, c, c)
	p.write(c, out)
	ADDQ(U32(vectorSize), in)
	ADDQ(U32(2*d), out)
	ADDQ(U32(2), code)
	DECQ(vectors)
	JNE(LabelRef("vector"))
	finish()
}

func codewords() {
	routine("codewords", "func(out *byte, message *byte, steps int)",
		"codewords writes the codewords of 16 message bytes a step, 32 bytes. It needs AVX2.")
	out := Load(Param("out"), GP64())
	message := Load(Param("message"), GP64())
	steps := Load(Param("steps"), GP64())
	var code [32]byte
	for i := range code {
		for k, word := range []byte{0x55, 0x0f, 0x3c, 0xf0} {
			code[i] ^= word * byte(i%16>>k&1)
		}
	}
	table := vectorOf(code)
	nibble := bytesOf(0x0f)
	Label("step")
	low, high, a, b := XMM(), XMM(), XMM(), XMM()
	VMOVDQU(at(message, 0), low)
	VPSRLW(U8(4), low, high)
	VPAND(nibble.AsX(), low, low)
	VPAND(nibble.AsX(), high, high)
	VPSHUFB(low, table.AsX(), low)
	VPSHUFB(high, table.AsX(), high)
	VPUNPCKLBW(high, low, a)
	VPUNPCKHBW(high, low, b)
	VMOVDQU(a, at(out, 0))
	VMOVDQU(b, at(out, 16))
	ADDQ(U32(32), out)
	ADDQ(U32(16), message)
	DECQ(steps)
	JNE(LabelRef("step"))
	finish()
}

func packSecret() {
	routine("packSecret", "func(out *byte, half *int16, top int, steps int)",
		"packSecret writes top - 2*half[i] as nibbles, 16 bytes a step. It needs AVX2.")
	out := Load(Param("out"), GP64())
	half := Load(Param("half"), GP64())
	top := YMM()
	broadcastWord("top", top)
	steps := Load(Param("steps"), GP64())
	join := longs(16<<16 | 1)
	Label("step")
	var x [2]VecVirtual
	for i := range x {
		x[i] = YMM()
		VMOVDQU(at(half, vectorSize*i), x[i])
		VPADDW(x[i], x[i], x[i])
		VPSUBW(x[i], top, x[i])
		VPMADDWD(join, x[i], x[i])
	}
	VPACKUSDW(x[1], x[0], x[0])
	VPERMQ(U8(0xd8), x[0], x[0])
	high := YMM()
	VEXTRACTI128(U8(1), x[0], high.AsX())
	VPACKUSWB(high.AsX(), x[0].AsX(), x[0].AsX())
	VMOVDQU(x[0].AsX(), at(out, 0))
	ADDQ(U32(2*vectorSize), half)
	ADDQ(U32(16), out)
	DECQ(steps)
	JNE(LabelRef("step"))
	finish()
}

// broadcastWord fills r with the low 16 bits of a parameter.
func broadcastWord(name string, r VecVirtual) {
	x := Load(Param(name), GP64())
	VMOVQ(x, r.AsX())
	VPBROADCASTW(r.AsX(), r)
}

func unpackSecret() {
	routine("unpackSecret", "func(out *int16, in *byte, top int, limit int, steps int) uint32",
		"unpackSecret sets out to top less each nibble of 16 bytes a step. It returns zero if",
		"no nibble is above limit. It needs AVX2.")
	out := Load(Param("out"), GP64())
	in := Load(Param("in"), GP64())
	top, limit, excess := YMM(), YMM(), YMM()
	broadcastWord("top", top)
	broadcastWord("limit", limit)
	steps := Load(Param("steps"), GP64())
	nibble := bytesOf(0x0f)
	VPXOR(excess, excess, excess)
	Label("step")
	low, high, a, b := XMM(), XMM(), XMM(), XMM()
	VMOVDQU(at(in, 0), low)
	VPSRLW(U8(4), low, high)
	VPAND(nibble.AsX(), low, low)
	VPAND(nibble.AsX(), high, high)
	VPUNPCKLBW(high, low, a)
	VPUNPCKHBW(high, low, b)
	for i, part := range []VecVirtual{a, b} {
		x, t := YMM(), YMM()
		VPMOVZXBW(part, x)
		VPCMPGTW(limit, x, t)
		VPOR(t, excess, excess)
		VPSUBW(x, top, x)
		store(x, at(out, vectorSize*i))
	}
	ADDQ(U32(16), in)
	ADDQ(U32(2*vectorSize), out)
	DECQ(steps)
	JNE(LabelRef("step"))
	r := GP32()
	VPMOVMSKB(excess, r)
	Store(r, ReturnIndex(0))
	finish()
}

// difference writes the comparison of two strings.
func difference() {
	routine("difference", "func(a *byte, b *byte, last int) uint64",
		"difference returns zero if a and b, of last+32 bytes, are the same. It needs AVX2.")
	a, b := Load(Param("a"), GP64()), Load(Param("b"), GP64())
	last := Load(Param("last"), GP64())
	index := GP64()
	XORQ(index, index)
	sum := YMM()
	VPXOR(sum, sum, sum)
	compare := func(index Register) {
		x := YMM()
		VMOVDQU(Mem{Base: a, Index: index, Scale: 1}, x)
		VPXOR(Mem{Base: b, Index: index, Scale: 1}, x, x)
		VPOR(x, sum, sum)
	}
	Label("vector")
	compare(index)
	ADDQ(U32(vectorSize), index)
	CMPQ(index, last)
	JLT(LabelRef("vector"))
	compare(last) // the end, whatever the length
	half, quarter := XMM(), XMM()
	VEXTRACTI128(U8(1), sum, half)
	VPOR(sum.AsX(), half, half)
	VPSRLDQ(U8(8), half, quarter)
	VPOR(half, quarter, quarter)
	result := GP64()
	VMOVQ(quarter, result)
	Store(result, ReturnIndex(0))
	finish()
}
