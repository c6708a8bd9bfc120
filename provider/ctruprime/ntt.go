package ctruprime

// The product of two polynomials of n coefficients has 2n-1 and is computed in
// Z_Q[x]/(x^N - 1), N = 512*leaf >= 2n-1, by an incomplete number-theoretic
// transform: x^N - 1 splits in nine layers into 512 factors x^leaf - w with w
// a power of the root of unity, and the product is taken modulo each factor.
//
// The factors form a binary tree. Node 1 is x^N - 1; node k is x^m - w^2 and
// its children 2k and 2k+1 are x^(m/2) - w and x^(m/2) + w.

const (
	leaves = 512
	// spanFirst is the number of blocks after the first three layers, which
	// forward and inverse treat apart: the input fills only half of the
	// ring, and the first root is 1.
	spanFirst = 8
	// spanLast is the number of blocks before the last two layers. They are
	// short, and unrolled for each degree.
	spanLast = leaves / 4
)

// poly holds the coefficients of a polynomial, centred, the constant one
// first; it is padded to parameters.half with zeros.
type poly []int16

// spectrum holds a polynomial modulo each leaf of the tree, parameters.size
// values modulo Q in no canonical form: |value| < 5Q.
type spectrum []int32

// roots holds what splits or joins a node and its two children at once: the w
// of the node, of its left and of its right child, or their inverses.
type roots struct{ top, left, right factor }

// The roots of the nodes 1 to 255, whose children are inner nodes too, and the
// w of the leaves x^leaf - w.
var (
	splits, joins [leaves / 2]roots
	leafRoots     [leaves]factor
)

func init() {
	var power [leaves]factor // of the root of unity
	for e, x := 0, uint64(1); e < leaves; e, x = e+1, x*rootOfUnity%modulus {
		power[e] = newFactor(x)
	}
	// exponent[k]: node k is x^m minus the root of unity to this power.
	var exponent [2 * leaves]int
	for k := 1; k < leaves; k++ {
		exponent[2*k], exponent[2*k+1] = exponent[k]/2, exponent[k]/2+leaves/2
	}
	// A node's w is the root that its left child has.
	split := func(k int) factor { return power[exponent[2*k]] }
	join := func(k int) factor { return power[(leaves-exponent[2*k])%leaves] }
	for k := 1; k < leaves/2; k++ {
		splits[k] = roots{split(k), split(2 * k), split(2*k + 1)}
		joins[k] = roots{join(k), join(2 * k), join(2*k + 1)}
	}
	for k := range leafRoots {
		leafRoots[k] = power[exponent[leaves+k]]
	}
}

// unscale undoes what a product has gathered after the inverse transform:
// 2 for each of nine layers, and -2^-64 from residue.
var unscale = newUnscale()

func newUnscale() factor {
	// 512 * (Q - (Q-1)/512) = 1 mod Q.
	return newFactor(uint64(new64Residue(modulus - (modulus-1)/leaves)))
}

// forward sets out to the transform of in, for |in[i]| <= 2^15: |out[i]| < 4.1Q.
func (p *parameters) forward(out spectrum, in poly) {
	p.forwardFirst(out, in)
	for nodes := spanFirst; nodes < spanLast; nodes *= 4 {
		p.forwardPass(out, nodes)
	}
	if p.leaf == 3 {
		forwardLast3(out)
	} else {
		forwardLast5(out)
	}
}

// forwardFirst does the first three layers, from the size/2 coefficients of
// in. |out[i]| < 1.01Q.
func (p *parameters) forwardFirst(out spectrum, in poly) {
	m := p.size / 8
	in0, in1, in2, in3 := in[:m], in[m:][:m], in[2*m:][:m], in[3*m:][:m]
	out0, out1, out2, out3 := out[:m], out[m:][:m], out[2*m:][:m], out[3*m:][:m]
	out4, out5, out6, out7 := out[4*m:][:m], out[5*m:][:m], out[6*m:][:m], out[7*m:][:m]
	// The roots are 1 at nodes 1, 2 and 4, i at nodes 3 and 5.
	i, w6, w7 := splits[3].top, splits[3].left, splits[3].right
	for j := range m {
		a, b, c, d := int64(in0[j]), int64(in1[j]), int64(in2[j]), int64(in3[j])

		s, t := a+c, b+d
		out0[j], out1[j] = int32(s+t), int32(s-t)
		s, t = a-c, mul(b-d, i)
		out2[j], out3[j] = int32(s+t), int32(s-t)

		c, d = mul(c, i), mul(d, i)
		s, t = a+c, mul(b+d, w6)
		out4[j], out5[j] = int32(s+t), int32(s-t)
		s, t = a-c, mul(b-d, w7)
		out6[j], out7[j] = int32(s+t), int32(s-t)
	}
}

// split splits one coefficient of each quarter of a node twice. The largest
// absolute value grows by less than 1.01Q.
func split(x0, x1, x2, x3 int32, w *roots) (y0, y1, y2, y3 int32) {
	a, b := int64(x0), int64(x1)
	c, d := mul(int64(x2), w.top), mul(int64(x3), w.top)
	s, t := a+c, mul(b+d, w.left)
	u, v := a-c, mul(b-d, w.right)
	return int32(s + t), int32(s - t), int32(u + v), int32(u - v)
}

// forwardPass splits each of so many nodes twice. It is split in a loop: the
// call would cost an eighth.
func (p *parameters) forwardPass(x spectrum, nodes int) {
	m := p.size / (4 * nodes)
	for i := range nodes {
		w := splits[nodes+i]
		x0, x1, x2, x3 := quarters(x, i, m)
		for j := range x0 {
			a, b := int64(x0[j]), int64(x1[j])
			c, d := mul(int64(x2[j]), w.top), mul(int64(x3[j]), w.top)
			s, t := a+c, mul(b+d, w.left)
			x0[j], x1[j] = int32(s+t), int32(s-t)
			s, t = a-c, mul(b-d, w.right)
			x2[j], x3[j] = int32(s+t), int32(s-t)
		}
	}
}

// forwardLast3 splits the last nodes into leaves of degree 3.
func forwardLast3(x spectrum) {
	for i := range spanLast {
		w, b := &splits[spanLast+i], (*[12]int32)(x)
		b[0], b[3], b[6], b[9] = split(b[0], b[3], b[6], b[9], w)
		b[1], b[4], b[7], b[10] = split(b[1], b[4], b[7], b[10], w)
		b[2], b[5], b[8], b[11] = split(b[2], b[5], b[8], b[11], w)
		x = x[len(b):]
	}
}

// forwardLast5 splits the last nodes into leaves of degree 5.
func forwardLast5(x spectrum) {
	for i := range spanLast {
		w, b := &splits[spanLast+i], (*[20]int32)(x)
		b[0], b[5], b[10], b[15] = split(b[0], b[5], b[10], b[15], w)
		b[1], b[6], b[11], b[16] = split(b[1], b[6], b[11], b[16], w)
		b[2], b[7], b[12], b[17] = split(b[2], b[7], b[12], b[17], w)
		b[3], b[8], b[13], b[18] = split(b[3], b[8], b[13], b[18], w)
		b[4], b[9], b[14], b[19] = split(b[4], b[9], b[14], b[19], w)
		x = x[len(b):]
	}
}

// quarters returns the four quarters of the i-th block of 4m values of x.
func quarters(x spectrum, i, m int) (x0, x1, x2, x3 spectrum) {
	block := x[4*m*i:]
	return block[:m], block[m:][:m], block[2*m:][:m], block[3*m:][:m]
}

// inverse overwrites x, |x[i]| <= (Q+1)/2, with the coefficients of the
// polynomial that it is the transform of, times -2^64, each the residue of
// least absolute value.
func (p *parameters) inverse(x spectrum) {
	if p.leaf == 3 {
		inverseFirst3(x)
	} else {
		inverseFirst5(x)
	}
	for nodes := spanLast / 4; nodes >= spanFirst; nodes /= 4 {
		p.inversePass(x, nodes)
	}
	p.inverseLast(x)
}

// join joins one coefficient of each quarter of a node from its grandchildren.
// It multiplies the largest absolute value by at most 4; three times take
// (Q+1)/2 to 32(Q+1) < 2^31.
func join(x0, x1, x2, x3 int32, w *roots) (y0, y1, y2, y3 int32) {
	a, b, c, d := int64(x0), int64(x1), int64(x2), int64(x3)
	a, b = a+b, mul(a-b, w.left)
	c, d = c+d, mul(c-d, w.right)
	return int32(a + c), int32(b + d), int32(mul(a-c, w.top)), int32(mul(b-d, w.top))
}

// inverseFirst3 joins the leaves of degree 3.
func inverseFirst3(x spectrum) {
	for i := range spanLast {
		w, b := &joins[spanLast+i], (*[12]int32)(x)
		b[0], b[3], b[6], b[9] = join(b[0], b[3], b[6], b[9], w)
		b[1], b[4], b[7], b[10] = join(b[1], b[4], b[7], b[10], w)
		b[2], b[5], b[8], b[11] = join(b[2], b[5], b[8], b[11], w)
		x = x[len(b):]
	}
}

// inverseFirst5 joins the leaves of degree 5.
func inverseFirst5(x spectrum) {
	for i := range spanLast {
		w, b := &joins[spanLast+i], (*[20]int32)(x)
		b[0], b[5], b[10], b[15] = join(b[0], b[5], b[10], b[15], w)
		b[1], b[6], b[11], b[16] = join(b[1], b[6], b[11], b[16], w)
		b[2], b[7], b[12], b[17] = join(b[2], b[7], b[12], b[17], w)
		b[3], b[8], b[13], b[18] = join(b[3], b[8], b[13], b[18], w)
		b[4], b[9], b[14], b[19] = join(b[4], b[9], b[14], b[19], w)
		x = x[len(b):]
	}
}

// inversePass joins each of so many nodes from its grandchildren. It is join in
// a loop.
func (p *parameters) inversePass(x spectrum, nodes int) {
	m := p.size / (4 * nodes)
	for i := range nodes {
		w := joins[nodes+i]
		x0, x1, x2, x3 := quarters(x, i, m)
		for j := range x0 {
			a, b, c, d := int64(x0[j]), int64(x1[j]), int64(x2[j]), int64(x3[j])
			a, b = a+b, mul(a-b, w.left)
			c, d = c+d, mul(c-d, w.right)
			x0[j], x2[j] = int32(a+c), int32(mul(a-c, w.top))
			x1[j], x3[j] = int32(b+d), int32(mul(b-d, w.top))
		}
	}
}

// inverseLast does the last three layers and the scaling. The sums of eight
// values stay in 64 bits: 8 * 2^31 < 2^38.
func (p *parameters) inverseLast(x spectrum) {
	m := p.size / 8
	x0, x1, x2, x3 := x[:m], x[m:][:m], x[2*m:][:m], x[3*m:][:m]
	x4, x5, x6, x7 := x[4*m:][:m], x[5*m:][:m], x[6*m:][:m], x[7*m:][:m]
	// The roots are 1 at nodes 1, 2 and 4, 1/i at nodes 3 and 5.
	i, w6, w7, scale := joins[3].top, joins[3].left, joins[3].right, unscale
	for j := range m {
		a, b, c, d := int64(x0[j]), int64(x1[j]), int64(x2[j]), int64(x3[j])
		a, b = a+b, a-b
		c, d = c+d, mul(c-d, i)
		a, c = a+c, a-c
		b, d = b+d, b-d

		e, f, g, h := int64(x4[j]), int64(x5[j]), int64(x6[j]), int64(x7[j])
		e, f = e+f, mul(e-f, w6)
		g, h = g+h, mul(g-h, w7)
		e, g = e+g, mul(e-g, i)
		f, h = f+h, mul(f-h, i)

		x0[j], x4[j] = int32(mul(a+e, scale)), int32(mul(a-e, scale))
		x1[j], x5[j] = int32(mul(b+f, scale)), int32(mul(b-f, scale))
		x2[j], x6[j] = int32(mul(c+g, scale)), int32(mul(c-g, scale))
		x3[j], x7[j] = int32(mul(d+h, scale)), int32(mul(d-h, scale))
	}
}

// pointwise sets out to the product of a and b modulo each leaf, times
// -2^-64. out may be a or b. |out[i]| <= (Q+1)/2.
//
// A leaf's sums have at most five terms below (5Q)^2 < 2^55.
func (p *parameters) pointwise(out, a, b spectrum) {
	if p.leaf == 3 {
		pointwise3(out, a, b)
	} else {
		pointwise5(out, a, b)
	}
}

// pointwise3 multiplies modulo x^3 - w for each leaf.
func pointwise3(out, a, b spectrum) {
	for _, w := range &leafRoots {
		a0, a1, a2 := int64(a[0]), int64(a[1]), int64(a[2])
		b0, b1, b2 := int64(b[0]), int64(b[1]), int64(b[2])
		wb1, wb2 := mul(b1, w), mul(b2, w)
		out[0] = int32(residue(a0*b0 + a1*wb2 + a2*wb1))
		out[1] = int32(residue(a0*b1 + a1*b0 + a2*wb2))
		out[2] = int32(residue(a0*b2 + a1*b1 + a2*b0))
		out, a, b = out[3:], a[3:], b[3:]
	}
}

// pointwise5 multiplies modulo x^5 - w for each leaf.
func pointwise5(out, a, b spectrum) {
	for _, w := range &leafRoots {
		a0, a1, a2, a3, a4 := int64(a[0]), int64(a[1]), int64(a[2]), int64(a[3]), int64(a[4])
		b0, b1, b2, b3, b4 := int64(b[0]), int64(b[1]), int64(b[2]), int64(b[3]), int64(b[4])
		wb1, wb2, wb3, wb4 := mul(b1, w), mul(b2, w), mul(b3, w), mul(b4, w)
		out[0] = int32(residue(a0*b0 + a1*wb4 + a2*wb3 + a3*wb2 + a4*wb1))
		out[1] = int32(residue(a0*b1 + a1*b0 + a2*wb4 + a3*wb3 + a4*wb2))
		out[2] = int32(residue(a0*b2 + a1*b1 + a2*b0 + a3*wb4 + a4*wb3))
		out[3] = int32(residue(a0*b3 + a1*b2 + a2*b1 + a3*b0 + a4*wb4))
		out[4] = int32(residue(a0*b4 + a1*b3 + a2*b2 + a3*b1 + a4*b0))
		out, a, b = out[5:], a[5:], b[5:]
	}
}

// fold reduces a product s of degree 2n-2, |s[i]| < Q/2, modulo x^n - x - 1
// in place: s[0] to s[n-1] are the result, |s[i]| < 2^25, and zeros follow up
// to a whole group of eight.
//
// x^n = x + 1, so s[n+i] is added to coefficients i and i+1.
func (p *parameters) fold(s spectrum) {
	low, high := s[:p.n], s[p.n:2*p.n-1]
	carry := int32(0)
	for i, h := range high {
		low[i] += h + carry
		carry = h
	}
	low[p.n-1] += carry
	clear(s[p.n : 8*p.groups()])
}
