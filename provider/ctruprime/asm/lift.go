package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// What follows the transform: a product known modulo two or three primes is
// reduced modulo x^n - x - 1 and read off modulo q or 2^16.

// lift writes the routines that do so.
//
// A product's coefficients s, modulo each prime, are at most 0.69p in absolute
// value (0.64p for a first prime), so a folded one, s[i] + s[i+n] + s[i+n-1], is
// below 2.1p, or 2p, and the difference of two below 2^15. The integer is
// r + p1*u, where r is the first folded residue as it stands and u is (s2 - r)/p1
// mod p2, exactly centred: then it is right whenever the integer's absolute value
// is at most p1*(p2/2 - 2). With a third prime it is r + p1*u + p1*p2*t.
// Modulo q that is r, below 2*p1, and one or two products of at most 0.54q.
func lift() {
	foldQ("foldQ", false,
		"foldQ folds a product modulo two primes, s1 and s2, into vectors of 16 words",
		"that are congruent to it modulo q, in absolute value below 3q. Words from n on are",
		"arbitrary. It needs AVX2.")
	foldQ("foldQ3", true, "foldQ3 is foldQ for three primes; its words are below 4q.")
	foldWord()
	centreQ()
}

// residues reads vectors of a folded product.
type residues struct {
	n, below Register // bytes of n and n-1 words
	mask     VecVirtual
}

// newResidues needs n, which counts words. Coefficient 0 has no third term: the
// first word of the mask is 0 until next.
func newResidues(table Register) residues {
	n := Load(Param("n"), GP64())
	ADDQ(n, n)
	below := GP64()
	LEAQ(at(n, -2), below)
	mask := YMM()
	VMOVDQU(at(table, 0), mask)
	return residues{n, below, mask}
}

func (r residues) next() { VPCMPEQW(r.mask, r.mask, r.mask) }

func (r residues) load(s Register) VecVirtual {
	x, y := YMM(), YMM()
	VPAND(Mem{Base: s, Index: r.below, Scale: 1}, r.mask, y)
	VMOVDQU(at(s, 0), x)
	VPADDW(Mem{Base: s, Index: r.n, Scale: 1}, x, x)
	VPADDW(y, x, x)
	return x
}

// Offsets in the table of the fold routines.
const (
	foldP2   = 1 * vectorSize // p2, then p2/2 and -p2/2
	foldC2   = 4 * vectorSize // 1/p1 mod p2
	foldQ1   = 6 * vectorSize // q
	foldP1Q  = 7 * vectorSize // p1 mod q
	foldP3   = 9 * vectorSize // p3, then p3/2 and -p3/2
	foldC13  = 12 * vectorSize
	foldC23  = 14 * vectorSize // 1/p1 and 1/p2 mod p3
	foldP12Q = 16 * vectorSize // p1*p2 mod q
)

func multiply(a VecVirtual, table Register, offset int, modulus Op) VecVirtual {
	return mul(value{a, uniform(0)}, pairAt(table, offset), modulus).VecVirtual
}

// centre makes u, |u| < 1.5p, its least absolute residue; p, p/2 and -p/2 are at
// the offset.
func centre(u VecVirtual, table Register, offset int) {
	over, under := YMM(), YMM()
	VPCMPGTW(at(table, offset+vectorSize), u, over)
	VMOVDQU(at(table, offset+2*vectorSize), under)
	VPCMPGTW(u, under, under)
	VPAND(at(table, offset), over, over)
	VPAND(at(table, offset), under, under)
	VPSUBW(over, u, u)
	VPADDW(under, u, u)
}

func foldQ(name string, third bool, doc ...string) {
	moduli = nil
	signature := "func(out *int16, s1 *int32, s2 *int32, table *int16, n int, vectors int)"
	if third {
		signature = "func(out *int16, s1 *int32, s2 *int32, s3 *int32, table *int16, n int, vectors int)"
	}
	routine(name, signature, doc...)
	out := Load(Param("out"), GP64())
	s1, s2 := Load(Param("s1"), GP64()), Load(Param("s2"), GP64())
	var s3 Register
	if third {
		s3 = Load(Param("s3"), GP64())
	}
	table := Load(Param("table"), GP64())
	s := newResidues(table)
	count := Load(Param("vectors"), GP64())
	p2, q := YMM(), YMM()
	VMOVDQU(at(table, foldP2), p2)
	VMOVDQU(at(table, foldQ1), q)
	Label("vector")
	r := s.load(s1)
	u := s.load(s2)
	VPSUBW(r, u, u)
	u = multiply(u, table, foldC2, p2)
	centre(u, table, foldP2)
	y := multiply(u, table, foldP1Q, q)
	VPADDW(r, y, y)
	if third {
		p3 := YMM()
		VMOVDQU(at(table, foldP3), p3)
		t := s.load(s3)
		VPSUBW(r, t, t)
		t = multiply(t, table, foldC13, p3)
		VPSUBW(u, t, t)
		t = multiply(t, table, foldC23, p3)
		centre(t, table, foldP3)
		VPADDW(multiply(t, table, foldP12Q, q), y, y)
		ADDQ(U32(vectorSize), s3)
	}
	store(y, at(out, 0))
	s.next()
	for _, p := range []Register{out, s1, s2} {
		ADDQ(U32(vectorSize), p)
	}
	DECQ(count)
	JNE(LabelRef("vector"))
	finish()
}

func foldWord() {
	routine("foldWord", "func(out *int16, s1 *int32, s2 *int32, table *int16, n int, vectors int)",
		"foldWord is foldQ modulo 2^16: the last vector of the table's first nine holds",
		"p1 in place of a factor modulo q.")
	out := Load(Param("out"), GP64())
	s1, s2 := Load(Param("s1"), GP64()), Load(Param("s2"), GP64())
	table := Load(Param("table"), GP64())
	s := newResidues(table)
	count := Load(Param("vectors"), GP64())
	p1, p2 := YMM(), YMM()
	VMOVDQU(at(table, foldP1Q+vectorSize), p1)
	VMOVDQU(at(table, foldP2), p2)
	Label("vector")
	r := s.load(s1)
	u := s.load(s2)
	VPSUBW(r, u, u)
	u = multiply(u, table, foldC2, p2)
	centre(u, table, foldP2)
	VPMULLW(p1, u, u)
	VPADDW(r, u, u)
	store(u, at(out, 0))
	s.next()
	for _, p := range []Register{out, s1, s2} {
		ADDQ(U32(vectorSize), p)
	}
	DECQ(count)
	JNE(LabelRef("vector"))
	finish()
}

// centreQ writes the reduction of words modulo q to their least absolute
// residues: out may be in.
func centreQ() {
	moduli = nil
	routine("centreQ", "func(out *int16, in *int16, table *int16, vectors int)",
		"centreQ reduces words modulo q, exactly centred. The table holds q, q/2, -q/2 and",
		"round(2^15/q). It needs AVX2.")
	out, in := Load(Param("out"), GP64()), Load(Param("in"), GP64())
	table, count := Load(Param("table"), GP64()), Load(Param("vectors"), GP64())
	q, reciprocal := YMM(), YMM()
	VMOVDQU(at(table, 0), q)
	VMOVDQU(at(table, 3*vectorSize), reciprocal)
	Label("vector")
	x := YMM()
	VMOVDQU(at(in, 0), x)
	x = reduceWords(x, q, reciprocal)
	centre(x, table, 0)
	store(x, at(out, 0))
	ADDQ(U32(vectorSize), out)
	ADDQ(U32(vectorSize), in)
	DECQ(count)
	JNE(LabelRef("vector"))
	finish()

	routine("doubleAddQ", "func(out *int16, in *int16, addend *int16, table *int16, vectors int)",
		"doubleAddQ is centreQ of 2*in + addend, |addend[i]| <= q/2.")
	out, in = Load(Param("out"), GP64()), Load(Param("in"), GP64())
	addend := Load(Param("addend"), GP64())
	table, count = Load(Param("table"), GP64()), Load(Param("vectors"), GP64())
	q, reciprocal = YMM(), YMM()
	VMOVDQU(at(table, 0), q)
	VMOVDQU(at(table, 3*vectorSize), reciprocal)
	Label("vector")
	x = YMM()
	VMOVDQU(at(in, 0), x)
	x = reduceWords(x, q, reciprocal) // |x| < q, so 2*|x| + q/2 < 2^15
	VPADDW(x, x, x)
	VPADDW(at(addend, 0), x, x)
	x = reduceWords(x, q, reciprocal)
	centre(x, table, 0)
	store(x, at(out, 0))
	for _, p := range []Register{out, in, addend} {
		ADDQ(U32(vectorSize), p)
	}
	DECQ(count)
	JNE(LabelRef("vector"))
	finish()
}

func reduceWords(x VecVirtual, modulus, reciprocal Op) VecVirtual {
	t, r := YMM(), YMM()
	VPMULHRSW(reciprocal, x, t)
	VPMULLW(modulus, t, t)
	VPSUBW(t, x, r)
	return r
}
