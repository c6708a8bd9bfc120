//go:build amd64 && !noasm

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

// A transform works modulo x^(512*radix) - 1 and a prime p that has roots of
// unity of order 32*radix. x^(512*radix) - 1 splits into radix blocks
// x^512 - w^k, and each of those in five layers, from x^m - r^2 to x^(m/2) - r
// and x^(m/2) + r, into leaves x^16 - s, a vector each: the 16 words of a vector
// never meet before the leaves are multiplied.
type transform struct {
	p                           modulus
	forward, pointwise, inverse table
}

const layerCount = 5

func newTransform(p modulus, radix int) *transform {
	t := &transform{p: p}
	order := radix << layerCount
	root := p.rootOfUnity(order)
	w := func(exponent int) int { return p.power(root, (exponent%order+order)%order) }
	inverse := func(exponent int) int { return w(-exponent) }

	for _, x := range []*table{&t.forward, &t.inverse} {
		x.full(int(p))
		x.full(p.reciprocal())
	}
	t.pointwise.full(int(p))
	t.pointwise.full(p.inverseWord())

	blocks := make([][layerCount][]int, radix)
	for k := range blocks {
		blocks[k] = layers(order/radix*k, order)
		for j := 1; j < (radix+1)/2; j++ {
			t.forward.pair(p, w(order/radix*k*j))
		}
		for _, layer := range blocks[k][:3] {
			for _, e := range layer {
				t.forward.pair(p, w(e))
			}
		}
	}
	for _, nodes := range blocks {
		t.forward.narrow(p, nodes, w)
		t.inverse.narrow(p, nodes, inverse)
	}
	for _, nodes := range blocks {
		for i := 2; i >= 0; i-- {
			for _, e := range nodes[i] {
				t.inverse.pair(p, inverse(e))
			}
		}
	}
	t.inverse.last(p, radix, func(k int) int { return inverse(order / radix * k) })
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

// layers lists, for each layer, the exponents of the roots r of its nodes
// x^m - r^2, under the node x^512 - w^exponent.
func layers(exponent, order int) [layerCount][]int {
	var nodes [layerCount][]int
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

// narrow appends, for each four vectors of a block, the factors of the last two
// layers, two words each, and four words of padding.
func (t *table) narrow(p modulus, nodes [layerCount][]int, w func(int) int) {
	for g, e := range nodes[3] {
		for _, e := range []int{e, nodes[4][2*g], nodes[4][2*g+1]} {
			low, high := p.factor(w(e))
			*t = append(*t, int16(low), int16(low), int16(high), int16(high))
		}
		*t = append(*t, 0, 0, 0, 0)
	}
}

// last appends what joins the blocks; w(k) is the inverse of block k's w^k. The
// layers have doubled the values, the blocks multiply them by the radix, and a
// pointwise product by 2^-16, which the scale undoes.
func (t *table) last(p modulus, radix int, w func(int) int) {
	t.pair(p, p.invert(radix<<layerCount)<<16)
	if radix == 3 {
		t.pair(p, w(1))
		return
	}
	half := p.invert(2)
	for _, sign := range []int{1, -1} {
		for k := 1; k <= 2; k++ {
			t.pair(p, (w(k)+sign*w(-k))*half)
		}
	}
}
