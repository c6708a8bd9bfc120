package vec

// lanes is the number of words of 16 bits in a vector.
const lanes = 16

// table is a sequence of constants as a routine reads them.
type table []int16

// full appends a word 16 times.
func (t *table) full(w int) {
	for range lanes {
		*t = append(*t, int16(w))
	}
}

// modulus is a prime p below 2^14.
type modulus int

// residue returns x mod p in [0, p).
func (p modulus) residue(x int) int {
	r := x % int(p)
	if r < 0 {
		r += int(p)
	}
	return r
}

// centred returns x mod p of least absolute value.
func (p modulus) centred(x int) int {
	r := p.residue(x)
	if r > int(p)/2 {
		r -= int(p)
	}
	return r
}

func (p modulus) power(base, exponent int) int {
	r, b := 1, p.residue(base)
	for ; exponent > 0; exponent >>= 1 {
		if exponent&1 == 1 {
			r = p.residue(r * b)
		}
		b = p.residue(b * b)
	}
	return r
}

// invert needs x that is not 0 mod p.
func (p modulus) invert(x int) int { return p.power(x, int(p)-2) }

// inverseWord returns p^-1 mod 2^16, by Newton's iteration.
func (p modulus) inverseWord() int {
	x := int(p) // p*p = 1 mod 8; each round doubles the bits
	for range 4 {
		x = x * (2 - int(p)*x) & 0xffff
	}
	return x
}

// reciprocal is round(2^15/p).
func (p modulus) reciprocal() int { return (1<<15 + int(p)/2) / int(p) }

// factor returns w as a Montgomery product takes it: w*2^16 mod p, centred,
// times p^-1 mod 2^16, and itself.
func (p modulus) factor(w int) (low, high int) {
	high = p.centred(p.residue(w) << 16)
	return high * p.inverseWord() & 0xffff, high
}

// pair appends a factor in two full vectors.
func (t *table) pair(p modulus, w int) {
	low, high := p.factor(w)
	t.full(low)
	t.full(high)
}

// halves appends a factor in two vectors, v in the low half and w in the high
// half of each.
func (t *table) halves(p modulus, v, w int) {
	vLow, vHigh := p.factor(v)
	wLow, wHigh := p.factor(w)
	for _, x := range [][2]int{{vLow, wLow}, {vHigh, wHigh}} {
		for i := range lanes {
			*t = append(*t, int16(x[i/(lanes/2)]))
		}
	}
}

// A transform works modulo x^(512*radix) - 1 and a prime p that has roots of
// unity of order 64*radix. x^(512*radix) - 1 splits into radix blocks
// x^512 - w^k, and each of those in six layers, from x^m - r^2 to x^(m/2) - r
// and x^(m/2) + r, into leaves x^8 - s. The leaves of a block are stored as the
// layers leave them: after the fifth a vector is one x^16 - s^2; the sixth
// takes two of those, X and Y, to the vectors (X mod x^8 - s, Y mod x^8 - t) and
// (X mod x^8 + s, Y mod x^8 + t).
type transform struct {
	p                           modulus
	forward, pointwise, inverse table
}

// newTransform computes the tables. scale multiplies every product.
func newTransform(p modulus, radix, scale int) *transform {
	t := &transform{p: p}
	order := 64 * radix
	root := p.rootOfUnity(order)
	w := func(exponent int) int { return p.power(root, (exponent%order+order)%order) }

	header := func(t *table) {
		t.full(int(p))
		t.full(p.reciprocal())
	}
	header(&t.forward)
	header(&t.inverse)
	header(&t.pointwise)
	t.pointwise.full(p.inverseWord())
	t.pointwise.swappedPairs()

	for k := range radix {
		nodes := layers(64*k, order)
		for j := 1; j < (radix+1)/2; j++ {
			t.forward.pair(p, w(64*k*j))
		}
		t.forward.wide(nodes, func(e int) { t.forward.pair(p, w(e)) })
		for g := range 8 {
			t.forward.narrow(p, nodes, g, w)
			t.inverse.narrow(p, nodes, g, func(e int) int { return w(-e) })
			for j := range 2 {
				v := nodes[5][4*g+2*j:]
				t.pointwise.halves(p, w(v[0]), w(v[1]))
			}
		}
		t.inverse.wideUp(nodes, func(e int) { t.inverse.pair(p, w(-e)) })
	}
	t.inverse.last(p, radix, scale, w)
	return t
}

// rootOfUnity returns an element of the order, which divides p-1.
func (p modulus) rootOfUnity(order int) int {
	for g := 2; ; g++ {
		root := p.power(g, (int(p)-1)/order)
		primitive := true
		for _, f := range []int{2, 3, 5} {
			if order%f == 0 && p.power(root, order/f) == 1 {
				primitive = false
			}
		}
		if primitive {
			return root
		}
	}
}

// layers lists, for each of six layers, the exponents of the roots r of its
// nodes x^m - r^2, under the node x^512 - w^exponent.
func layers(exponent, order int) [6][]int {
	var nodes [6][]int
	level := []int{exponent}
	for i := range nodes {
		var next []int
		for _, e := range level {
			nodes[i] = append(nodes[i], e/2)
			next = append(next, e/2, (e/2+order/2)%order)
		}
		level = next
	}
	return nodes
}

// swappedPairs appends, for each pair of words of eight, the shuffle that
// repeats it with its words exchanged.
func (t *table) swappedPairs() {
	for i := range 4 {
		for j := range lanes {
			b := 4*i + 2*(1-j%2)
			*t = append(*t, int16(b|(b+1)<<8))
		}
	}
}

// wide visits the first three layers in the order of forward, wideUp in that of
// inverse.
func (t *table) wide(nodes [6][]int, visit func(int)) {
	for _, layer := range nodes[:3] {
		for _, e := range layer {
			visit(e)
		}
	}
}

func (t *table) wideUp(nodes [6][]int, visit func(int)) {
	for i := 2; i >= 0; i-- {
		for _, e := range nodes[i] {
			visit(e)
		}
	}
}

// narrow appends the last three layers of the g-th four vectors of a block.
func (t *table) narrow(p modulus, nodes [6][]int, g int, w func(int) int) {
	for _, e := range []int{nodes[3][g], nodes[4][2*g], nodes[4][2*g+1]} {
		low, high := p.factor(w(e))
		*t = append(*t, int16(low), int16(low), int16(high), int16(high))
	}
	*t = append(*t, 0, 0, 0, 0)
	for j := range 2 {
		v := nodes[5][4*g+2*j:]
		t.halves(p, w(v[0]), w(v[1]))
	}
}

// last appends what joins the blocks. Six layers have doubled the values, the
// blocks multiply them by the radix, and a pointwise product by 2^-16.
func (t *table) last(p modulus, radix, scale int, w func(int) int) {
	t.pair(p, p.residue(p.invert(64*radix)*p.residue(scale))<<16)
	if radix == 3 {
		t.pair(p, w(-64))
		return
	}
	half := p.invert(2)
	for _, sign := range []int{1, -1} {
		for k := 1; k <= 2; k++ {
			t.pair(p, (w(-64*k)+sign*w(64*k))*half)
		}
	}
}
