package ctruprime

// Inversion in R_q by Bernstein and Yang's division steps ("Fast constant-time
// gcd computation and modular inversion", TCHES 2019/3, section 5 and figure
// 5.1): 2n-1 of them, whatever the polynomial is.
//
// Coefficients are kept two to a word, coefficient j in the low half of
// word j and coefficient j+h in its high half, h = (n+1)/2. A scalar times a
// word multiplies both, and a shift by one coefficient moves whole words.
// Each half is below 2^14 and congruent to its coefficient modulo q.

const (
	lowHalf    = 1<<32 - 1
	lowQuarter = 1<<16 - 1
	// lowQuarters are the low 16 bits of both halves of a word.
	lowQuarters = lowQuarter<<32 | lowQuarter
)

// division is the state of an inversion. It holds secrets.
type division struct {
	f, g, v, r []uint64 // n+1 coefficients each
}

func newDivision(p *parameters) *division {
	h := (p.n + 1) / 2
	return &division{make([]uint64, h), make([]uint64, h), make([]uint64, h), make([]uint64, h)}
}

func (s *division) wipe() {
	clear(s.f)
	clear(s.g)
	clear(s.v)
	clear(s.r)
}

// invertPoly sets out to in^-1 in R_q, centred. in is not zero in R_q;
// |in[i]| < q. out may be in.
func (p *parameters) invertPoly(out, in poly, s *division) {
	s.load(p, in)
	delta := int32(1)
	for step := range 2*p.n - 1 {
		delta = s.step(p, step, delta)
	}
	s.store(p, out)
}

// load starts the division of x^n - x - 1 by in. Both are reversed: f is
// 1 - x^(n-1) - x^n and g is x^(n-1) * in(1/x).
func (s *division) load(p *parameters, in poly) {
	h := len(s.f)
	s.wipe()
	minusOne := uint64(p.q - 1)
	s.f[0] = 1
	s.f[h-2] = minusOne << 32 // coefficient n-1
	s.f[h-1] = minusOne << 32 // coefficient n
	for i, x := range in[:p.n] {
		y := int32(x)
		y += p.q & (y >> 31)
		j := p.n - 1 - i
		if j < h {
			s.g[j] |= uint64(y)
		} else {
			s.g[j-h] |= uint64(y) << 32
		}
	}
	s.r[0] = 1
}

// store reads off the inverse once f is constant: v, reversed, over f.
func (s *division) store(p *parameters, out poly) {
	h := len(s.f)
	scale := p.invert(p.modQ(uint32(s.f[0])))
	for i := range out[:p.n] {
		j := p.n - 1 - i
		var x uint32
		if j < h {
			x = uint32(s.v[j])
		} else {
			x = uint32(s.v[j-h] >> 32)
		}
		out[i] = int16(p.centre(int32(p.modQ(x * scale))))
	}
	clear(out[p.n:])
}

// step does division step number step and returns the new delta:
//
//	v = x*v
//	if delta > 0 and g(0) != 0: swap f and g, v and r, negate delta
//	delta = delta + 1
//	g = (f(0)*g - g(0)*f) / x
//	r = f(0)*r - g(0)*v
//
// where both right sides carry a factor 2^-16, which cancels in the end.
func (s *division) step(p *parameters, step int, delta int32) int32 {
	f0 := p.modQ(uint32(s.f[0]))
	g0 := p.modQ(uint32(s.g[0]))
	nonzero := -int32(g0) >> 31 // all ones or zero
	swap := nonzero & (-delta >> 31)
	delta = delta ^ swap - swap + 1
	difference := (f0 ^ g0) & uint32(swap)
	f0 ^= difference
	g0 ^= difference

	e := elimination{
		f0: uint64(f0), minusG0: uint64(uint32(p.q) - g0),
		swap: uint64(int64(swap)), q: uint64(p.q), minusInverse: p.minusInverse,
	}
	// Only f(0) is wanted after the last step, so of f and g only as many
	// coefficients matter as steps remain; v and r have degree <= step+1.
	e.reduceDown(s.f, s.g, 2*p.n-1-step)
	e.raise(s.v, s.r, step+2)
	return delta
}

// elimination is what one step does to every coefficient.
type elimination struct {
	f0, minusG0  uint64 // in [0, q]
	swap         uint64 // all ones to swap, else zero
	q            uint64
	minusInverse uint64 // -q^-1 mod 2^16
}

// apply returns the pair (a, f0*b - g0*a) * (1, 2^-16), after the swap.
// The halves of a and b are below 2^14, and so are those of the result:
// (2q*2^14 + 2^16*q) / 2^16 < 2^14 for q < 2^13 * 4/3.
func (e *elimination) apply(a, b uint64) (uint64, uint64) {
	difference := (a ^ b) & e.swap
	a ^= difference
	b ^= difference
	t := e.f0*b + e.minusG0*a
	m := (t & lowQuarters) * e.minusInverse & lowQuarters
	return a, (t + m*e.q) >> 16 & lowQuarters
}

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

// raise multiplies v by x and then applies e to v and r, of which count
// coefficients may differ from zero.
func (e *elimination) raise(v, r []uint64, count int) {
	top := v[len(v)-1] << 32
	words := min(count, len(v))
	v, r = v[:words], r[:words]
	for j := len(v) - 1; j > 0; j-- {
		v[j], r[j] = e.apply(v[j-1], r[j])
	}
	v[0], r[0] = e.apply(top, r[0])
}
