package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Polynomials of radix*512 words modulo x^(radix*512) - 1, modulo primes of 12
// or 13 bits. Package vec explains the transform and the order of its tables.

const (
	vectorSize = 32              // bytes
	blockSize  = 32 * vectorSize // a block of 512 coefficients
	pairSize   = 2 * vectorSize  // a factor in full
	wideSize   = 7 * pairSize    // factors of the three wide layers of a block
	narrowSize = 32              // of the two narrow layers of four vectors
	groupCount = 8               // of four vectors in a block
	leafSize   = 2 * vectorSize  // of a key's leaf: s*b, then b
)

// A shape is a transform's radix and the primes that it serves, with the largest
// absolute value that enters.
type shape struct {
	radix  int
	primes []int64
	input  int64
}

var shapes = []shape{
	{3, []int64{1153, 3457, 4801, 4993}, 2310},
	{5, []int64{5441, 7681, 8641}, 3939},
}

func ring() {
	for _, s := range shapes {
		moduli = s.primes
		operand := s.forward(false)
		key := s.forward(true)
		s.pointwise("VNNI", "AVX512-VNNI and AVX-512VL", leafVNNI, operand, key)
		s.inverse(s.pointwise("", "AVX2", leafAVX2, operand, key))
	}
	swapPairs()
}

// forward writes the transform, of a key or of the other operand, and returns the
// bound of its values.
func (s shape) forward(key bool) bounds {
	name, form := fmt.Sprintf("forward%d", s.radix), "the words of each pair exchanged"
	if key {
		name, form = fmt.Sprintf("forwardKey%d", s.radix), "as a key: s*b before each leaf b"
	}
	routine(name, "func(out *int32, in *int16, table *int16)",
		fmt.Sprintf("%s transforms %d words in, |in[i]| <= %d: %s.", name, s.radix*256, s.input, form),
		"It needs AVX2.")
	out := Load(Param("out"), GP64())
	in := Load(Param("in"), GP64())
	table := Load(Param("table"), GP64())
	modulus, reciprocal := YMM(), YMM()
	VMOVDQU(at(table, 0), modulus)
	VMOVDQU(at(table, vectorSize), reciprocal)
	ADDQ(U32(2*vectorSize), table)

	// A key's values are spaced by a vector, before which its multiple goes.
	spacing := vectorSize
	if key {
		spacing = leafSize
		ADDQ(U32(vectorSize), out)
	}

	// A block's input is what in is modulo x^512 - w^block.
	wide := s.splitWide("first", true, in, out, table, spacing, modulus, reciprocal)
	block := GP64()
	MOVQ(U32(s.radix-1), block)
	Label("block")
	wide = wide.max(s.splitWide("wide", false, in, out, table, spacing, modulus, reciprocal))
	DECQ(block)
	JNE(LabelRef("block"))
	SUBQ(U32(32*spacing*s.radix), out)

	result := uniform(0)
	loop("narrow", groupCount*s.radix, func() {
		x := make([]value, 4)
		for i := range x {
			x[i] = load(at(out, spacing*i), wide)
		}
		f := narrowFactors(table)
		split([]butterfly{{&x[0], &x[2], f[0]}, {&x[1], &x[3], f[0]}}, modulus, reciprocal)
		if !key {
			// Enough, since a key's values are smaller.
			half := reduceAll([]value{x[0], x[2]}, modulus, reciprocal)
			x[0], x[2] = half[0], half[1]
		}
		split([]butterfly{{&x[0], &x[1], f[1]}, {&x[2], &x[3], f[2]}}, modulus, reciprocal)
		if key {
			x = reduceAll(x, modulus, reciprocal)
		}
		for i, y := range x {
			store(y.VecVirtual, at(out, spacing*i))
			result = result.max(y.bounds)
			if key {
				// Of two neighbours the leaves are x^16 - s and x^16 + s.
				product := mul
				if i%2 == 1 {
					product = negated
				}
				z := product(y, f[1+i/2], modulus)
				store(z.VecVirtual, at(out, spacing*i-vectorSize))
				result = result.max(z.bounds)
			}
		}
		ADDQ(U32(4*spacing), out)
		ADDQ(U32(narrowSize), table)
	})
	finish()
	return result
}

// splitWide does the three wide layers of a block. The roots of the first block's
// first nodes are one. It leaves out and the table behind the block.
func (s shape) splitWide(name string, first bool, in, out, table Register, spacing int, modulus, reciprocal Op) bounds {
	result := uniform(0)
	loop(name, 4, func() {
		x := make([]value, 8)
		for i := range x {
			x[i] = load(at(in, 4*vectorSize*i), uniform(s.input))
		}
		for j, full := range s.upper() {
			for i := 0; i < full; i += atOnce {
				var ys []value
				var ws []factor
				for k := i; k < i+atOnce; k++ {
					ys = append(ys, load(at(in, blockSize*(j+1)+4*vectorSize*k), uniform(s.input)))
					ws = append(ws, pairAt(table, pairSize*j))
				}
				if !first {
					ys = mulAll(ys, ws, modulus)
				}
				for k, y := range ys {
					x[i+k] = add(x[i+k], y)
				}
			}
		}
		w := pairSize * len(s.upper())
		for half := 4; half >= 1; half /= 2 {
			var layer []butterfly
			for i := 0; i < 8; i += 2 * half {
				f := pairAt(table, w)
				w += pairSize
				if first && i == 0 && half > 1 {
					for j := range half {
						splitOne(&x[j], &x[j+half], modulus, reciprocal)
					}
					continue
				}
				for j := i; j < i+half; j++ {
					layer = append(layer, butterfly{&x[j], &x[j+half], f})
				}
			}
			split(layer, modulus, reciprocal)
		}
		for i := range x {
			store(x[i].VecVirtual, at(out, 4*spacing*i))
			result = result.max(x[i].bounds)
		}
		ADDQ(U32(vectorSize), in)
		ADDQ(U32(spacing), out)
	})
	SUBQ(U32(4*vectorSize), in)
	ADDQ(U32(28*spacing), out)
	ADDQ(U32(pairSize*len(s.upper())+wideSize), table)
	return result
}

// upper says how many of the eight vectors that a step takes from the blocks of
// coefficients 512-1023 and 1024-1535 of the input there are.
func (s shape) upper() []int {
	if s.radix == 3 {
		return []int{4}
	}
	return []int{8, 4}
}

// narrowFactors loads the three factors of the narrow layers.
func narrowFactors(table Register) []factor {
	f := make([]factor, 3)
	for i := range f {
		f[i] = factor{broadcast(at(table, 8*i)), broadcast(at(table, 8*i+4))}
	}
	return f
}

// splitOne sets a to a + b and b to a - b.
func splitOne(a, b *value, modulus, reciprocal Op) {
	if tooLarge(a.bounds, b.bounds) {
		*a, *b = reduce(*a, modulus, reciprocal), reduce(*b, modulus, reciprocal)
	}
	*a, *b = add(*a, *b), sub(*a, *b)
}

// A butterfly is two values and the factor between them.
type butterfly struct {
	a, b *value
	w    factor
}

// atOnce is how many butterflies are interleaved: a processor finds only nearby
// instructions to do in parallel.
const atOnce = 2

// split sets a to a + w*b and b to a - w*b, for each.
func split(all []butterfly, modulus, reciprocal Op) {
	for len(all) > 0 {
		n := min(atOnce, len(all))
		part := all[:n]
		all = all[n:]
		bs, ws := make([]value, n), make([]factor, n)
		for i, x := range part {
			bs[i], ws[i] = *x.b, x.w
		}
		for i, t := range mulAll(bs, ws, modulus) {
			x := part[i]
			if tooLarge(x.a.bounds, t.bounds) {
				*x.a = reduce(*x.a, modulus, reciprocal)
			}
			*x.b = sub(*x.a, t)
			*x.a = add(*x.a, t)
		}
	}
}

// join sets a to a + b and b to (a-b)*w, for each.
func join(all []butterfly, modulus, reciprocal Op) {
	for len(all) > 0 {
		n := min(atOnce, len(all))
		part := all[:n]
		all = all[n:]
		ds, ws := make([]value, n), make([]factor, n)
		for i, x := range part {
			for _, y := range []*value{x.a, x.b} {
				if tooLarge(x.a.bounds, x.b.bounds) {
					*y = reduce(*y, modulus, reciprocal)
				}
			}
			ds[i], ws[i] = sub(*x.a, *x.b), x.w
			*x.a = add(*x.a, *x.b)
		}
		for i, t := range mulAll(ds, ws, modulus) {
			*part[i].b = t
		}
	}
}

func tooLarge(a, b bounds) bool {
	for i := range a {
		if a[i]+b[i] > wordLimit {
			return true
		}
	}
	return false
}

// pointwise writes the product modulo each leaf x^16 - s. It returns the bound of
// the results.
//
// The sums of 16 products are exact in 32 bits. With e the 32 words s*b, b of a
// key's leaf, coefficient k of the product is the sum of a[j] * e[16+k-j]; a pair
// of j is one multiplication, which gives every other k. a comes with the words
// of each pair exchanged.
func (s shape) pointwise(suffix, needs string, leaf func(a, e Register) (even, odd VecVirtual), operand, key bounds) bounds {
	name := fmt.Sprintf("pointwise%d%s", s.radix, suffix)
	routine(name, "func(out *int32, a *int32, key *int32, table *int16)",
		fmt.Sprintf("%s multiplies two transforms. out may be a. It needs %s.", name, needs))
	out := Load(Param("out"), GP64())
	a := Load(Param("a"), GP64())
	e := Load(Param("key"), GP64())
	table := Load(Param("table"), GP64())
	modulus, inverse := YMM(), YMM()
	VMOVDQU(at(table, 0), modulus)
	VMOVDQU(at(table, vectorSize), inverse)

	result := make(bounds, len(moduli))
	for i, p := range moduli {
		sum := 16 * operand[i] * key[i]
		if sum >= 1<<31 {
			panic("asm: the sums of a leaf's products exceed 32 bits")
		}
		result[i] = (sum+p<<15)>>16 + 1
	}
	loop("leaf", s.radix*32, func() {
		even, odd := leaf(a, e)
		// Montgomery's reduction of 32 bits: low and high words apart.
		low, high := YMM(), YMM()
		VPSLLD(U8(16), odd, low)
		VPBLENDW(U8(0xaa), low, even, low)
		VPSRLD(U8(16), even, high)
		VPBLENDW(U8(0xaa), odd, high, high)
		VPMULLW(inverse, low, low)
		VPMULHW(modulus, low, low)
		VPSUBW(low, high, high)
		store(high, at(out, 0))
		ADDQ(U32(vectorSize), out)
		ADDQ(U32(vectorSize), a)
		ADDQ(U32(leafSize), e)
	})
	finish()
	return result
}

// window is words 15-j of e on, and i words further.
func window(e Register, j, i int) Mem { return at(e, 2*(15-j+i)) }

// leafAVX2 returns the even and the odd coefficients of a product of leaves.
func leafAVX2(a, e Register) (even, odd VecVirtual) {
	sums := []VecVirtual{YMM(), YMM()}
	for j := 0; j < 16; j += 2 {
		pair := broadcast(at(a, 2*j))
		for i, sum := range sums {
			if j == 0 {
				VPMADDWD(window(e, j, i), pair, sum)
				continue
			}
			product := YMM()
			VPMADDWD(window(e, j, i), pair, product)
			VPADDD(product, sum, sum)
		}
	}
	return sums[0], sums[1]
}

// leafVNNI is leafAVX2 with multiplications that add. Most pairs are spread by
// shuffles, since two vectors a cycle can be loaded, and pairs in turn are added
// up apart, since a sum takes longer than its multiplications are apart.
func leafVNNI(a, e Register) (even, odd VecVirtual) {
	const shuffled = 6
	halves := []VecVirtual{YMM(), YMM()}
	VBROADCASTI128(at(a, 0), halves[0])
	VBROADCASTI128(at(a, 16), halves[1])
	sums := [2][2]VecVirtual{{YMM(), YMM()}, {YMM(), YMM()}}
	for k := range 8 {
		var pair VecVirtual
		if k < shuffled {
			pair = YMM()
			VPSHUFD(U8(k%4*0x55), halves[k/4], pair)
		} else {
			pair = broadcast(at(a, 4*k))
		}
		for i, sum := range sums[k%2] {
			if k < 2 {
				VPMADDWD(window(e, 2*k, i), pair, sum)
			} else {
				multiplyAdd(window(e, 2*k, i), pair, sum)
			}
		}
	}
	VPADDD(sums[1][0], sums[0][0], sums[0][0])
	VPADDD(sums[1][1], sums[0][1], sums[0][1])
	return sums[0][0], sums[0][1]
}

// multiplyAdd is VPDPWSSD, which avo does not know: VPMADDWD, added to sum.
func multiplyAdd(a Mem, b, sum VecVirtual) {
	Instruction(&ir.Instruction{
		Opcode:   "VPDPWSSD",
		Operands: []Op{a, b, sum},
		Inputs:   []Op{a, b, sum},
		Outputs:  []Op{sum},
		ISA:      []string{"AVX512VL", "AVX512VNNI"},
	})
}

// inverse writes the inverse of forward, in place, times whatever the table's
// scale says.
func (s shape) inverse(in bounds) {
	name := fmt.Sprintf("inverse%d", s.radix)
	routine(name, "func(x *int32, table *int16)",
		fmt.Sprintf("%s turns a product of transforms back, in place. It needs AVX2.", name))
	x := Load(Param("x"), GP64())
	table := Load(Param("table"), GP64())
	modulus, reciprocal := YMM(), YMM()
	VMOVDQU(at(table, 0), modulus)
	VMOVDQU(at(table, vectorSize), reciprocal)
	ADDQ(U32(2*vectorSize), table)

	worst := uniform(0)
	loop("narrow", groupCount*s.radix, func() {
		v := make([]value, 4)
		for i := range v {
			v[i] = load(at(x, vectorSize*i), in)
		}
		f := narrowFactors(table)
		join([]butterfly{{&v[0], &v[1], f[1]}, {&v[2], &v[3], f[2]}}, modulus, reciprocal)
		join([]butterfly{{&v[0], &v[2], f[0]}, {&v[1], &v[3], f[0]}}, modulus, reciprocal)
		for i := range v {
			v[i] = s.tame(v[i], 3, 4, modulus, reciprocal)
			store(v[i].VecVirtual, at(x, vectorSize*i))
			worst = worst.max(v[i].bounds)
		}
		ADDQ(U32(4*vectorSize), x)
		ADDQ(U32(narrowSize), table)
	})
	SUBQ(U32(s.radix*blockSize), x)

	b := s.joinWide("first", true, worst, x, table, modulus, reciprocal)
	block := GP64()
	MOVQ(U32(s.radix-1), block)
	Label("block")
	b = b.max(s.joinWide("wide", false, worst, x, table, modulus, reciprocal))
	DECQ(block)
	JNE(LabelRef("block"))
	SUBQ(U32(s.radix*blockSize), x)

	loop("blocks", 32, func() {
		v := make([]value, s.radix)
		for i := range v {
			v[i] = load(at(x, blockSize*i), b)
		}
		if s.radix == 3 {
			v = joinThree(v, table, modulus)
		} else {
			v = joinFive(v, table, modulus, reciprocal)
		}
		ws := make([]factor, len(v))
		for i := range ws {
			ws[i] = pairAt(table, 0)
		}
		for i, r := range mulAll(v, ws, modulus) {
			if r.bounds.exceeds(69, 100) {
				panic("asm: the coefficients of a product exceed 0.69p, which lift takes for granted")
			}
			store(r.VecVirtual, at(x, blockSize*i))
		}
		ADDQ(U32(vectorSize), x)
	})
	finish()
}

// joinWide is the inverse of splitWide.
func (s shape) joinWide(name string, first bool, in bounds, x, table Register, modulus, reciprocal Op) bounds {
	result := uniform(0)
	loop(name, 4, func() {
		v := make([]value, 8)
		for i := range v {
			v[i] = load(at(x, 4*vectorSize*i), in)
		}
		w := 0
		for half := 1; half <= 4; half *= 2 {
			var layer []butterfly
			for i := 0; i < 8; i += 2 * half {
				f := pairAt(table, w)
				w += pairSize
				if first && i == 0 && half > 1 {
					for j := range half {
						splitOne(&v[j], &v[j+half], modulus, reciprocal)
					}
					continue
				}
				for j := i; j < i+half; j++ {
					layer = append(layer, butterfly{&v[j], &v[j+half], f})
				}
			}
			join(layer, modulus, reciprocal)
		}
		for i := range v {
			v[i] = s.tame(v[i], 5, 4, modulus, reciprocal)
			store(v[i].VecVirtual, at(x, 4*vectorSize*i))
			result = result.max(v[i].bounds)
		}
		ADDQ(U32(vectorSize), x)
	})
	ADDQ(U32(blockSize-4*vectorSize), x)
	ADDQ(U32(wideSize), table)
	return result
}

// swapPairs writes the exchange of the words of each pair.
func swapPairs() {
	routine("swapPairs", "func(out *int16, in *int16, vectors int)",
		"swapPairs exchanges the words of each pair. out may be in. It needs AVX2.")
	out, in := Load(Param("out"), GP64()), Load(Param("in"), GP64())
	vectors := Load(Param("vectors"), GP64())
	Label("vector")
	x := YMM()
	VPSHUFLW(U8(0xb1), at(in, 0), x)
	VPSHUFHW(U8(0xb1), x, x)
	store(x, at(out, 0))
	ADDQ(U32(vectorSize), in)
	ADDQ(U32(vectorSize), out)
	DECQ(vectors)
	JNE(LabelRef("vector"))
	finish()
}

// tame reduces a value whose bound is above numerator/denominator of its
// modulus.
func (s shape) tame(v value, numerator, denominator int64, modulus, reciprocal Op) value {
	if v.bounds.exceeds(numerator, denominator) {
		return reduce(v, modulus, reciprocal)
	}
	return v
}

// joinThree turns residues modulo x^512 - w^k, k = 0, 1, 2, into three times
// the coefficients of 1, x^512 and x^1024. The table has 1/w after the scale.
func joinThree(a []value, table Register, modulus Op) []value {
	d12 := sub(a[1], a[2])
	t := mul(d12, pairAt(table, pairSize), modulus)
	return []value{
		add(a[0], add(a[1], a[2])),
		add(sub(a[0], a[2]), t),
		sub(sub(a[0], a[1]), t),
	}
}

// joinFive is joinThree for five blocks. The table has, after the scale, the
// halves of w^-1 + w and w^-2 + w^2, then of w^-1 - w and w^-2 - w^2.
func joinFive(a []value, table Register, modulus, reciprocal Op) []value {
	c1, c2 := pairAt(table, pairSize), pairAt(table, 2*pairSize)
	s1, s2 := pairAt(table, 3*pairSize), pairAt(table, 4*pairSize)
	for i := range a {
		if a[i].bounds.exceeds(3, 5) {
			a[i] = reduce(a[i], modulus, reciprocal)
		}
	}
	p1, m1 := add(a[1], a[4]), sub(a[1], a[4])
	p2, m2 := add(a[2], a[3]), sub(a[2], a[3])
	e1 := add(a[0], add(mul(p1, c1, modulus), mul(p2, c2, modulus)))
	e2 := add(a[0], add(mul(p1, c2, modulus), mul(p2, c1, modulus)))
	o1 := add(mul(m1, s1, modulus), mul(m2, s2, modulus))
	o2 := sub(mul(m1, s2, modulus), mul(m2, s1, modulus))
	return []value{
		add(a[0], add(p1, p2)),
		add(e1, o1), add(e2, o2), sub(e2, o2), sub(e1, o1),
	}
}
