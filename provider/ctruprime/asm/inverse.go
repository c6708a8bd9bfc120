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
// To divide g by x, or multiply v, is to move where it begins: each word of a
// result is written over that of g or v that it came from. Stores that overlap
// loads of the next step, but not quite, would hold those up.
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
	divide(vectorAVX2, "divide", "AVX2")
	divide(vectorAVX512, "divideAVX512", "AVX-512F, BW and VL")
}

// A vectorKind says how a division uses vectors.
type vectorKind struct {
	bytes, atOnce int
	new           func() VecVirtual
	move          func(from, to Op)
	mask          func() Register
	setMask       func(all, mask Register)     // to all ones or zero
	choose        func(mask Register, b, a Op) // a = b where the mask is one
}

var vectorAVX2 = vectorKind{
	bytes: 32, atOnce: 2, new: YMM, move: func(from, to Op) { VMOVDQU(from, to) },
	mask: func() Register { return YMM() },
	setMask: func(all, mask Register) {
		VMOVQ(all, mask.(VecVirtual).AsX())
		VPBROADCASTQ(mask.(VecVirtual).AsX(), mask)
	},
	choose: func(mask Register, b, a Op) { VPBLENDVB(mask, b, a, a) },
}

var vectorAVX512 = vectorKind{
	bytes: 64, atOnce: 1, new: ZMM, move: func(from, to Op) { VMOVDQU64(from, to) },
	mask:    func() Register { return K() },
	setMask: func(all, mask Register) { KMOVQ(all, mask) },
	choose:  func(mask Register, b, a Op) { VPBLENDMW(b, a, mask, a) },
}

func divide(kind vectorKind, name, needs string) {
	routine(name, "func(fs *int16, gs *int16, vs *int16, rs *int16, table *int16, steps int, size int, gap int) int",
		name+" does so many division steps on f, g, v and r, where v = 0 and r = 1 at the",
		"start and the degrees of f and g, below size, add up to steps. f and r have size words,",
		"a multiple of 32. g and v have steps + 32 and wander: g starts at gs, and v ends at vs.",
		"The table holds q, then as 64-bit integers q, round(2^28/q) and round(2^43/q). What",
		"it leaves is right if delta was never beyond gap, an even number, in absolute value;",
		"otherwise it returns a negative number. It needs "+needs+".")
	d := division{
		vectorKind: kind,
		f:          Load(Param("fs"), GP64()), g: Load(Param("gs"), GP64()),
		v: Load(Param("vs"), GP64()), r: Load(Param("rs"), GP64()),
		table: Load(Param("table"), GP64()), steps: Load(Param("steps"), GP64()),
		delta: GP64(), f0: GP64(), g0: GP64(), done: GP64(), within: GP64(),
		q: kind.new(), multF: kind.new(), multG: kind.new(), guessF: kind.new(), guessG: kind.new(),
		swap: kind.mask(),
	}
	VPBROADCASTW(at(d.table, 0), d.q)
	LEAQ(Mem{Base: d.v, Index: d.steps, Scale: 2}, d.v)
	MOVQ(I32(1), d.delta)
	XORQ(d.done, d.done)
	XORQ(d.within, d.within)
	Label("step")
	d.prepare()
	d.divideDown()
	d.raise()
	ADDQ(I32(2), d.g)
	SUBQ(I32(2), d.v)
	INCQ(d.done)
	DECQ(d.steps)
	JNE(LabelRef("step"))
	Store(d.within, ReturnIndex(0))
	finish()
}

type division struct {
	vectorKind
	f, g, v, r, table               Register
	steps, delta, f0, g0, done      Register
	within                          GPVirtual // negative once delta was beyond the gap
	q, multF, multG, guessF, guessG VecVirtual
	swap                            Register // a mask
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
	d.setMask(nonzero, d.swap)
	XORQ(nonzero, d.delta)
	SUBQ(nonzero, d.delta)
	INCQ(d.delta)
	// within |= gap - |delta|
	sign, room := GP64(), GP64()
	MOVQ(d.delta, sign)
	SARQ(U8(63), sign)
	MOVQ(gapParameter, room)
	ADDQ(sign, room)
	XORQ(d.delta, sign)
	SUBQ(sign, room)
	ORQ(room, d.within)
}

// eliminate returns f0*b - g0*a.
func (d *division) eliminate(a, b VecVirtual) VecVirtual {
	guess, t, next := d.new(), d.new(), d.new()
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

// The last two arguments are read where they are.
var (
	sizeParameter = NewParamAddr("size", 48)
	gapParameter  = NewParamAddr("gap", 56)
)

// After t steps of s the degrees of f and g are at most (s-t+delta)/2 and
// (s-t-delta)/2, and those of v and r at most (t+1+delta)/2 and (t+1-delta)/2:
// by induction, for a step that swaps, where delta becomes 1-delta, and for one
// that does not, where delta grows by one and either was not positive or g0 is
// zero. Words beyond are multiples of q, and are left alone.

// divideDown treats f and g, of which no more words matter than steps remain, and
// one.
func (d *division) divideDown() {
	count := GP64()
	d.limit(count, d.steps, 0)
	bound := GP64()
	LEAQ(at(d.steps, -1), bound)
	d.treat("down", count, bound, d.f, d.g)
}

// raise treats v and r, whose degree is at most the number of steps done, too.
func (d *division) raise() {
	count := GP64()
	d.limit(count, d.done, 1)
	d.treat("up", count, d.done, d.v, d.r)
}

// limit sets count to half of sum + gap + more, a bound of the degree, or to the
// index of the last word.
func (d *division) limit(count, sum Register, more int) {
	last := GP64()
	MOVQ(gapParameter, count)
	LEAQ(Mem{Base: count, Index: sum, Scale: 1, Disp: more}, count)
	SHRQ(U8(1), count)
	MOVQ(sizeParameter, last)
	DECQ(last)
	CMPQ(last, count)
	CMOVQLT(last, count)
}

// treat replaces the words of a and b up to an index, count or bound, by those of a
// or b and of f0*b - g0*a.
func (d *division) treat(name string, count, bound, as, bs Register) {
	CMPQ(bound, count)
	CMOVQLT(bound, count)
	SHRQ(U8(5), count) // by 32
	INCQ(count)
	p, q := GP64(), GP64()
	MOVQ(as, p)
	MOVQ(bs, q)
	Label(name)
	for i := range d.atOnce {
		a, b := d.new(), d.new()
		d.move(at(p, d.bytes*i), a)
		d.move(at(q, d.bytes*i), b)
		next := d.eliminate(a, b)
		d.choose(d.swap, b, a)
		d.move(a, at(p, d.bytes*i))
		d.move(next, at(q, d.bytes*i))
	}
	ADDQ(U32(d.bytes*d.atOnce), p)
	ADDQ(U32(d.bytes*d.atOnce), q)
	DECQ(count)
	JNE(LabelRef(name))
}
