package ctruprime

import "math/bits"

// Inversion in R_q by Bernstein and Yang's division steps ("Fast constant-time
// gcd computation and modular inversion", TCHES 2019/3, sections 3 and 6):
// always the same number of them, whatever the polynomial is. They are done in
// jumps (section 5): what jumpSteps steps do to f and g depends on their low
// coefficients only, so it is worked out on those and then applied to the whole
// as a matrix of polynomials.
//
// One step, for the reversed modulus f and the reversed polynomial g, with
// v = 0 and r = 1 beside them:
//
//	if delta > 0 and g(0) != 0: swap f and g, v and r, negate delta
//	delta = delta + 1
//	g = (f(0)*g - g(0)*f) / x
//	r =  f(0)*r - g(0)*v
//	v = x*v
//
// After 2n-1 steps g is zero, f a constant, and v/(x*f) the reversed inverse.
// Any further step only multiplies v by x. Every g and r carries a factor 2^-16
// a step, from Montgomery's reduction, which cancels in v/f.

const (
	// jumpSteps is the number of steps in a jump. It is even, and small enough
	// for 2*(jumpSteps+1)*(q-1)^2 < 2^32.
	jumpSteps = 30
	// jumpWords is the number of words that jumpSteps+1 coefficients take.
	jumpWords = jumpSteps/2 + 1
)

// Coefficients, of 32 bits each, are kept two to a word: coefficients 2j and
// 2j+1 in word j of a series, which products of words convolve; or, where they
// are shifted by one at a time, coefficients j and j+h in word j of h, so that a
// shift moves whole words.

// series is a polynomial, coefficients 2j and 2j+1 in word jumpWords+j and
// below q, between margins of jumpWords zeros.
type series []uint64

// transition is the matrix that a jump multiplies (v, r) by, and (f, g), which
// it then divides by x^jumpSteps. Entry [i][k] maps the k-th of a pair to the
// i-th. Word jumpWords-1-j holds coefficients 2j and 2j+1, below q: reversed,
// since entries are convolved with series.
type transition [2][2][jumpWords]uint64

// pair is two series and room for what a jump turns them into.
type pair struct{ now, next [2]series }

// division is the state of an inversion. It holds secrets.
type division struct {
	fg, vr pair

	jumps int
	delta int32
	t     transition

	// The low coefficients of f and g, and the two columns of the matrix, in
	// words of coefficients j and j+h.
	lowF, lowG [jumpSteps / 2]uint64
	columns    [2][2][jumpWords]uint64
}

func newDivision(p *parameters) *division {
	d := &division{jumps: (2*p.n - 1 + jumpSteps - 1) / jumpSteps}
	for i := range 2 {
		for _, s := range []*series{&d.fg.now[i], &d.fg.next[i], &d.vr.now[i], &d.vr.next[i]} {
			*s = make(series, jumpWords+d.words(p)+jumpWords)
		}
	}
	return d
}

// excess is the power of x in v in the end: one and the number of steps beyond
// 2n-1.
func (d *division) excess(p *parameters) int { return d.jumps*jumpSteps - (2*p.n - 1) + 1 }

// words is the number of words between a series' margins: n+1 coefficients and
// the excess.
func (d *division) words(p *parameters) int { return (p.n + 1 + d.excess(p) + 1) / 2 }

func (d *division) wipe() {
	for i := range 2 {
		for _, s := range []series{d.fg.now[i], d.fg.next[i], d.vr.now[i], d.vr.next[i]} {
			clear(s)
		}
	}
	d.delta = 0
	d.t = transition{}
	clear(d.lowF[:])
	clear(d.lowG[:])
	d.columns = [2][2][jumpWords]uint64{}
}

// invertPoly sets out to in^-1 in R_q, centred. in is not zero in R_q;
// |in[i]| < q. out may be in.
func (p *parameters) invertPoly(out, in poly, d *division) {
	d.load(p, in)
	words := d.words(p)
	for i := range d.jumps {
		d.jump(p)
		// Only f(0) is wanted in the end, so of f and g only as many
		// coefficients matter as steps remain; v and r grow by a degree a step.
		left := (d.jumps - 1 - i) * jumpSteps
		d.t.apply(p, &d.fg, jumpSteps/2, min((p.n+1)/2, left/2+1))
		d.t.apply(p, &d.vr, 0, min(words, (i+1)*jumpSteps/2+1))
	}
	d.store(p, out)
}

// set sets coefficient i, which is zero before.
func (s series) set(i int, x uint64) { s[jumpWords+i/2] |= x << (i % 2 * 32) }

// get returns coefficient i.
func (s series) get(i int) uint32 { return uint32(s[jumpWords+i/2] >> (i % 2 * 32)) }

// load starts the division of x^n - x - 1 by in.
func (d *division) load(p *parameters, in poly) {
	d.wipe()
	d.delta = 1
	f, g, r := d.fg.now[0], d.fg.now[1], d.vr.now[1]
	f.set(0, 1)
	f.set(p.n-1, uint64(p.q-1))
	f.set(p.n, uint64(p.q-1))
	for i, x := range in[:p.n] {
		y := int32(x)
		g.set(p.n-1-i, uint64(y+p.q&(y>>31)))
	}
	r.set(0, 1)
}

// store reads off the inverse.
func (d *division) store(p *parameters, out poly) {
	f, v := d.fg.now[0], d.vr.now[0]
	scale := p.invert(f.get(0))
	last := p.n - 1 + d.excess(p)
	for i := range out[:p.n] {
		out[i] = int16(p.centre(int32(p.modQ(v.get(last-i) * scale))))
	}
	clear(out[p.n:])
}

// jump sets d.t to the matrix of the next jumpSteps steps.
func (d *division) jump(p *parameters) {
	const h = jumpSteps / 2
	f, g := d.fg.now[0], d.fg.now[1]
	for j := range h {
		d.lowF[j] = uint64(f.get(j)) | uint64(f.get(j+h))<<32
		d.lowG[j] = uint64(g.get(j)) | uint64(g.get(j+h))<<32
	}
	d.columns = [2][2][jumpWords]uint64{}
	d.columns[0][0][0], d.columns[1][1][0] = 1, 1
	for step := range jumpSteps {
		e := d.nextElimination(p)
		e.reduceDown(d.lowF[:], d.lowG[:], jumpSteps-step)
		for k := range d.columns {
			e.raise(d.columns[k][0][:], d.columns[k][1][:], step+2)
		}
	}
	for k := range d.columns {
		for i := range d.columns[k] {
			p.reorder(&d.t[i][k], &d.columns[k][i])
		}
	}
}

// reorder turns a column's words of coefficients j and j+jumpWords into an
// entry of a transition.
func (p *parameters) reorder(entry, column *[jumpWords]uint64) {
	const pairs = jumpWords / 2
	for j := range pairs {
		a, b := column[2*j], column[2*j+1]
		entry[jumpWords-1-j] = uint64(p.modQ(uint32(a))) | uint64(p.modQ(uint32(b)))<<32
		entry[pairs-1-j] = uint64(p.modQ(uint32(a>>32))) | uint64(p.modQ(uint32(b>>32)))<<32
	}
}

// apply multiplies a pair by the matrix and keeps count words from word from on,
// which become the first. The words behind them are left as they were two jumps
// before.
//
// The low half of a product of two words holds the terms of coefficients 2j and
// 2j+1 and the high half those of 2j+2. A coefficient sums up at most
// 2*(jumpSteps+1) terms of at most (q-1)^2 and stays below 2^32, so nothing is
// carried from one into the next.
func (t *transition) apply(p *parameters, x *pair, from, count int) {
	a, b := x.now[0], x.now[1]
	out0, out1 := x.next[0][jumpWords:][:count], x.next[1][jumpWords:][:count]
	// The high halves of the word before out belong to its first word.
	_, carry0, _, carry1 := t.convolveWord(a, b, from)
	for j := range out0 {
		low0, high0, low1, high1 := t.convolveWord(a, b, from+j+1)
		out0[j], out1[j] = p.modQBoth(low0+carry0), p.modQBoth(low1+carry1)
		carry0, carry1 = high0, high1
	}
	x.now, x.next = x.next, x.now
}

// convolveWord returns word at-1 of both products, the sum of the products'
// low and high halves each.
func (t *transition) convolveWord(a, b series, at int) (low0, high0, low1, high1 uint64) {
	x, y := (*[jumpWords]uint64)(a[at:]), (*[jumpWords]uint64)(b[at:])
	for j := range jumpWords {
		high, low := bits.Mul64(t[0][0][j], x[j])
		low0, high0 = low0+low, high0+high
		high, low = bits.Mul64(t[0][1][j], y[j])
		low0, high0 = low0+low, high0+high
		high, low = bits.Mul64(t[1][0][j], x[j])
		low1, high1 = low1+low, high1+high
		high, low = bits.Mul64(t[1][1][j], y[j])
		low1, high1 = low1+low, high1+high
	}
	return low0, high0, low1, high1
}

// modQBoth reduces both halves of a word.
func (p *parameters) modQBoth(x uint64) uint64 {
	return uint64(p.modQ(uint32(x))) | uint64(p.modQ(uint32(x>>32)))<<32
}

// elimination is what one step does to every coefficient.
type elimination struct {
	f0, minusG0  uint64 // in [0, q]
	swap         uint64 // all ones to swap, else zero
	q            uint64
	minusInverse uint64 // -q^-1 mod 2^16
}

// nextElimination decides a step from lowF(0) and lowG(0), and updates delta.
func (d *division) nextElimination(p *parameters) elimination {
	f0 := p.modQ(uint32(d.lowF[0]))
	g0 := p.modQ(uint32(d.lowG[0]))
	nonzero := -int32(g0) >> 31 // all ones or zero
	swap := nonzero & (-d.delta >> 31)
	d.delta = d.delta ^ swap - swap + 1
	difference := (f0 ^ g0) & uint32(swap)
	return elimination{
		f0: uint64(f0 ^ difference), minusG0: uint64(uint32(p.q) - (g0 ^ difference)),
		swap: uint64(int64(swap)), q: uint64(p.q), minusInverse: p.minusInverse,
	}
}

// apply returns the pair (a, f0*b - g0*a) * (1, 2^-16), after the swap.
// The halves of a and b are below 2^14, and so are those of the result:
// (2q*2^14 + 2^16*q) / 2^16 < 2^14 for q < 2^13 * 4/3.
func (e *elimination) apply(a, b uint64) (uint64, uint64) {
	const lowQuarters = lowQuarter<<32 | lowQuarter
	difference := (a ^ b) & e.swap
	a ^= difference
	b ^= difference
	t := e.f0*b + e.minusG0*a
	m := (t & lowQuarters) * e.minusInverse & lowQuarters
	return a, (t + m*e.q) >> 16 & lowQuarters
}

const lowQuarter = 1<<16 - 1

// reduceDown applies e to f and g, of which count coefficients matter, and
// divides g, whose constant coefficient vanishes, by x.
func (e *elimination) reduceDown(f, g []uint64, count int) {
	words := min(count, len(f))
	f, g = f[:words], g[:words]
	var first, b uint64
	f[0], first = e.apply(f[0], g[0])
	for j := 1; j < len(f); j++ {
		f[j], b = e.apply(f[j], g[j])
		g[j-1] = b
	}
	g[len(g)-1] = first >> 32
}

// raise applies e to v and r, of which count coefficients may differ from zero
// afterwards, and then multiplies v by x.
func (e *elimination) raise(v, r []uint64, count int) {
	words := min(count, len(v))
	v, r = v[:words], r[:words]
	var a, before uint64
	for j := range v {
		a, r[j] = e.apply(v[j], r[j])
		v[j], before = before, a
	}
	v[0] = a << 32
}
