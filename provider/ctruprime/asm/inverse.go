package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// inversion writes Bernstein and Yang's division steps on whole polynomials.
//
// One step, with f0 and g0 the constant coefficients of f and g, centred modulo q:
//
//	next = f0*g - g0*f, last = f0*r - g0*v
//	if delta > 0 and g0 != 0: f = g, v = r, delta = -delta
//	delta = delta + 1
//	g = next / x, r = last, v = x*v
//
// (A swap would also negate next and last; the sign does not matter.)
//
// A word of next is low(f0*g) - low(g0*f) - k*q with
// k = round(g*cf/2^15) - round(f*cg/2^15), cf = round(f0*2^15/q) and cg likewise.
// If all words are at most B in absolute value, k is within 1 + B/2^15 of the
// true quotient, so |next| <= q*(1 + B/2^15), which is at most B for
// B = q/(1 - q/2^15) = 5380, 5340 and 10375.
func inversion() {
	moduli = nil
	routine("divide", "func(fs *int16, gs *int16, vs *int16, rs *int16, table *int16, steps int, size int)",
		"divide does so many division steps on f, g, v and r of size words, a multiple of 64,",
		"with room for a word before g and 64 after v, where v = 0 and r = 1 at the start.",
		"The table holds q, then as 64-bit integers q, round(2^28/q) and round(2^43/q). It",
		"needs AVX2.")
	d := division{
		f: Load(Param("fs"), GP64()), g: Load(Param("gs"), GP64()),
		v: Load(Param("vs"), GP64()), r: Load(Param("rs"), GP64()),
		table: Load(Param("table"), GP64()), steps: Load(Param("steps"), GP64()),
		delta: GP64(), f0: GP64(), g0: GP64(), done: GP64(),
		q: YMM(), multF: YMM(), multG: YMM(), guessF: YMM(), guessG: YMM(), swap: YMM(),
	}
	VMOVDQU(at(d.table, 0), d.q)
	MOVQ(I32(1), d.delta)
	XORQ(d.done, d.done)
	Label("step")
	d.prepare()
	d.divideDown()
	d.raise()
	INCQ(d.done)
	DECQ(d.steps)
	JNE(LabelRef("step"))
	finish()
}

type division struct {
	f, g, v, r, table                     Register
	steps, delta, f0, g0, done            Register
	q, multF, multG, guessF, guessG, swap VecVirtual
}

// prepare reads f0 and g0, decides the swap and readies the factors.
func (d *division) prepare() {
	for _, x := range []struct {
		from        Register
		mult, guess VecVirtual
		to          Register
	}{{d.f, d.multF, d.guessF, d.f0}, {d.g, d.multG, d.guessG, d.g0}} {
		c, t := x.to, GP64()
		MOVWQSX(at(x.from, 0), c)
		// c - round(c*round(2^28/q)/2^28)*q
		MOVQ(at(d.table, vectorSize+8), t)
		IMULQ(c, t)
		ADDQ(U32(1<<27), t)
		SARQ(U8(28), t)
		IMULQ(at(d.table, vectorSize), t)
		SUBQ(t, c)
		VMOVQ(c, x.mult.AsX())
		VPBROADCASTW(x.mult.AsX(), x.mult)
		// round(c*round(2^43/q)/2^28)
		MOVQ(at(d.table, vectorSize+16), t)
		IMULQ(c, t)
		ADDQ(U32(1<<27), t)
		SARQ(U8(28), t)
		VMOVQ(t, x.guess.AsX())
		VPBROADCASTW(x.guess.AsX(), x.guess)
	}
	// swap = all ones if g0 != 0 and delta > 0.
	nonzero, positive := GP64(), GP64()
	MOVQ(d.g0, nonzero)
	NEGQ(nonzero)
	ORQ(d.g0, nonzero) // negative unless zero
	MOVQ(d.delta, positive)
	NEGQ(positive)
	ANDQ(positive, nonzero)
	SARQ(U8(63), nonzero)
	VMOVQ(nonzero, d.swap.AsX())
	VPBROADCASTQ(d.swap.AsX(), d.swap)
	XORQ(nonzero, d.delta)
	SUBQ(nonzero, d.delta)
	INCQ(d.delta)
}

// eliminate returns f0*b - g0*a.
func (d *division) eliminate(a, b VecVirtual) VecVirtual {
	guess, t, next := YMM(), YMM(), YMM()
	VPMULHRSW(d.guessF, b, guess)
	VPMULHRSW(d.guessG, a, t)
	VPSUBW(t, guess, guess)
	VPMULLW(d.multF, b, next)
	VPMULLW(d.multG, a, t)
	VPMULLW(d.q, guess, guess)
	VPSUBW(t, next, next)
	VPSUBW(guess, next, next)
	return next
}

const unrolled = 4 // vectors

// sizeParameter is where the last argument is.
var sizeParameter = NewParamAddr("size", 48)

// divideDown treats f and g, of which as many words matter as steps remain, and
// one.
func (d *division) divideDown() {
	count, f, g := GP64(), GP64(), GP64()
	MOVQ(sizeParameter, count)
	CMPQ(d.steps, count)
	CMOVQLT(d.steps, count)
	DECQ(count)
	SHRQ(U8(6), count)
	MOVQ(d.f, f)
	MOVQ(d.g, g)
	INCQ(count)
	Label("down")
	for i := range unrolled {
		a, b := YMM(), YMM()
		VMOVDQU(at(f, vectorSize*i), a)
		VMOVDQU(at(g, vectorSize*i), b)
		next := d.eliminate(a, b)
		VPBLENDVB(d.swap, b, a, a)
		store(a, at(f, vectorSize*i))
		store(next, at(g, vectorSize*i-2))
	}
	ADDQ(U32(unrolled*vectorSize), f)
	ADDQ(U32(unrolled*vectorSize), g)
	DECQ(count)
	JNE(LabelRef("down"))
}

// raise treats v and r, whose degree is at most the number of steps done.
func (d *division) raise() {
	count, offset := GP64(), GP64()
	MOVQ(sizeParameter, count)
	DECQ(count)
	CMPQ(d.done, count)
	CMOVQLT(d.done, count)
	SHRQ(U8(6), count)
	MOVQ(count, offset)
	SHLQ(U8(7), offset)
	INCQ(count)
	v, r := GP64(), GP64()
	MOVQ(d.v, v)
	ADDQ(offset, v)
	MOVQ(d.r, r)
	ADDQ(offset, r)
	Label("up")
	for i := unrolled - 1; i >= 0; i-- {
		a, b := YMM(), YMM()
		VMOVDQU(at(v, vectorSize*i), a)
		VMOVDQU(at(r, vectorSize*i), b)
		last := d.eliminate(a, b)
		VPBLENDVB(d.swap, b, a, a)
		store(a, at(v, vectorSize*i+2))
		store(last, at(r, vectorSize*i))
	}
	SUBQ(U32(unrolled*vectorSize), v)
	SUBQ(U32(unrolled*vectorSize), r)
	DECQ(count)
	JNE(LabelRef("up"))
	MOVW(U16(0), at(d.v, 0))
}
