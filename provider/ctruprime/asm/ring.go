package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
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
	narrowSize = 32 + 2*pairSize // of the three narrow layers of four vectors
	groupCount = 8               // of four vectors in a block
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
		spectrum := s.forward()
		s.inverse(pointwise(s, spectrum))
	}
}

// forward writes the transform and returns the bound of its values.
func (s shape) forward() bounds {
	name := fmt.Sprintf("forward%d", s.radix)
	routine(name, "func(out *int32, in *int16, table *int16)",
		fmt.Sprintf("%s transforms %d words in, |in[i]| <= %d, into %d. It needs AVX2.",
			name, s.radix*256, s.input, s.radix*512))
	out := Load(Param("out"), GP64())
	in := Load(Param("in"), GP64())
	table := Load(Param("table"), GP64())
	modulus, reciprocal := YMM(), YMM()
	VMOVDQU(at(table, 0), modulus)
	VMOVDQU(at(table, vectorSize), reciprocal)
	ADDQ(U32(2*vectorSize), table)

	block := GP64()
	MOVQ(U32(s.radix), block)
	Label("block")
	// A block's input is what in is modulo x^512 - w^block.
	wide := uniform(0)
	loop("wide", 4, func() {
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
				for k, t := range mulAll(ys, ws, modulus) {
					x[i+k] = add(x[i+k], t)
				}
			}
		}
		base := pairSize * len(s.upper())
		w := base
		for half := 4; half >= 1; half /= 2 {
			var layer []butterfly
			for i := 0; i < 8; i += 2 * half {
				f := pairAt(table, w)
				w += pairSize
				for j := i; j < i+half; j++ {
					layer = append(layer, butterfly{&x[j], &x[j+half], f})
				}
			}
			split(layer, modulus, reciprocal)
		}
		for i := range x {
			store(x[i].VecVirtual, at(out, 4*vectorSize*i))
			wide = wide.max(x[i].bounds)
		}
		ADDQ(U32(vectorSize), in)
		ADDQ(U32(vectorSize), out)
	})
	SUBQ(U32(4*vectorSize), in)
	SUBQ(U32(4*vectorSize), out)
	ADDQ(U32(pairSize*len(s.upper())+wideSize), table)

	result := uniform(0)
	loop("narrow", groupCount, func() {
		x := make([]value, 4)
		for i := range x {
			x[i] = load(at(out, vectorSize*i), wide)
		}
		f := narrowFactors(table)
		split([]butterfly{{&x[0], &x[2], f[0]}, {&x[1], &x[3], f[0]}}, modulus, reciprocal)
		split([]butterfly{{&x[0], &x[1], f[1]}, {&x[2], &x[3], f[2]}}, modulus, reciprocal)
		x[0], x[1] = swapHalves(x[0], x[1])
		x[2], x[3] = swapHalves(x[2], x[3])
		split([]butterfly{{&x[0], &x[1], f[3]}, {&x[2], &x[3], f[4]}}, modulus, reciprocal)
		for i, y := range reduceAll(x, modulus, reciprocal) {
			store(y.VecVirtual, at(out, vectorSize*i))
			result = result.max(y.bounds)
		}
		ADDQ(U32(4*vectorSize), out)
		ADDQ(U32(narrowSize), table)
	})
	DECQ(block)
	JNE(LabelRef("block"))
	finish()
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

// narrowFactors loads the five factors of the narrow layers: three in words,
// broadcast, and two in full.
func narrowFactors(table Register) []factor {
	f := make([]factor, 5)
	for i := range 3 {
		f[i] = factor{broadcast(at(table, 8*i)), broadcast(at(table, 8*i+4))}
	}
	f[3], f[4] = pairAt(table, 32), pairAt(table, 32+pairSize)
	return f
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

// pointwise writes the product modulo each leaf x^8 - s, two leaves a vector. It
// returns the bound of the results.
//
// The sums of eight products are exact in 32 bits. With e the 16 words s*b, b,
// coefficient k of the product is the sum of a[j] * e[8+k-j]; a pair of j is one
// multiplication, which gives every other k.
func pointwise(s shape, in bounds) bounds {
	name := fmt.Sprintf("pointwise%d", s.radix)
	routine(name, "func(out *int32, a *int32, b *int32, table *int16)",
		fmt.Sprintf("%s multiplies two transforms. out may be a or b. It needs AVX2.", name))
	out := Load(Param("out"), GP64())
	a := Load(Param("a"), GP64())
	b := Load(Param("b"), GP64())
	table := Load(Param("table"), GP64())
	modulus, inverse := YMM(), YMM()
	VMOVDQU(at(table, 0), modulus)
	VMOVDQU(at(table, 2*vectorSize), inverse)
	pairs := make([]VecVirtual, 4) // shuffles that repeat a[2i+1], a[2i]
	for i := range pairs {
		pairs[i] = YMM()
		VMOVDQU(at(table, (3+i)*vectorSize), pairs[i])
	}
	ADDQ(U32(7*vectorSize), table)

	result := uniform(0)
	loop("pair", s.radix*16, func() {
		for i := range 2 {
			x := load(at(a, vectorSize*i), in)
			y := load(at(b, vectorSize*i), in)
			wrapped := mul
			if i == 1 {
				wrapped = negated // the second vector's leaves are x^8 + s
			}
			z := wrapped(y, pairAt(table, 0), modulus)
			r := leafProduct(x, y, z, pairs, modulus, inverse)
			store(r.VecVirtual, at(out, vectorSize*i))
			result = result.max(r.bounds)
		}
		ADDQ(U32(pairSize), table)
		for _, p := range []Register{out, a, b} {
			ADDQ(U32(2*vectorSize), p)
		}
	})
	finish()
	return result
}

func leafProduct(x, y, z value, pairs []VecVirtual, modulus, inverse Op) value {
	even, odd := VecVirtual(nil), VecVirtual(nil)
	accumulate := func(sum *VecVirtual, window, pair VecVirtual) {
		product := YMM()
		VPMADDWD(window, pair, product)
		if *sum == nil {
			*sum = product
			return
		}
		VPADDD(product, *sum, *sum)
	}
	for i := range 4 {
		pair := YMM()
		VPSHUFB(pairs[i], x.VecVirtual, pair)
		// Words 7-2i and 8-2i of e on.
		window := YMM()
		VPALIGNR(U8(2*(7-2*i)), z.VecVirtual, y.VecVirtual, window)
		accumulate(&even, window, pair)
		window = y.VecVirtual
		if i > 0 {
			window = YMM()
			VPALIGNR(U8(2*(8-2*i)), z.VecVirtual, y.VecVirtual, window)
		}
		accumulate(&odd, window, pair)
	}
	// Montgomery's reduction of 32 bits: low and high words apart.
	low, high := YMM(), YMM()
	VPSLLD(U8(16), odd, low)
	VPBLENDW(U8(0xaa), low, even, low)
	VPSRLD(U8(16), even, high)
	VPBLENDW(U8(0xaa), odd, high, high)
	VPMULLW(inverse, low, low)
	VPMULHW(modulus, low, low)
	VPSUBW(low, high, high)

	b := make(bounds, len(moduli))
	for i, p := range moduli {
		sum := 8 * x.bounds[i] * max(y.bounds[i], z.bounds[i])
		if sum >= 1<<31 {
			panic("asm: the sums of a leaf's products exceed 32 bits")
		}
		b[i] = (sum+p<<15)>>16 + 1
	}
	return value{high, b}
}

// inverse writes the inverse of forward, in place, but for a factor 64*radix*2^16
// that the routine scales away with whatever else the table says.
func (s shape) inverse(in bounds) {
	name := fmt.Sprintf("inverse%d", s.radix)
	routine(name, "func(x *int32, table *int16)",
		fmt.Sprintf("%s turns a product of transforms back, in place: |x[i]| <= about 0.6p. It needs AVX2.", name))
	x := Load(Param("x"), GP64())
	table := Load(Param("table"), GP64())
	modulus, reciprocal := YMM(), YMM()
	VMOVDQU(at(table, 0), modulus)
	VMOVDQU(at(table, vectorSize), reciprocal)
	ADDQ(U32(2*vectorSize), table)

	block := GP64()
	MOVQ(U32(s.radix), block)
	Label("block")
	narrow := make([]bounds, 4)
	loop("narrow", groupCount, func() {
		v := make([]value, 4)
		for i := range v {
			v[i] = load(at(x, vectorSize*i), in)
		}
		f := narrowFactors(table)
		join([]butterfly{{&v[0], &v[1], f[3]}, {&v[2], &v[3], f[4]}}, modulus, reciprocal)
		v[0], v[1] = swapHalves(v[0], v[1])
		v[2], v[3] = swapHalves(v[2], v[3])
		join([]butterfly{{&v[0], &v[1], f[1]}, {&v[2], &v[3], f[2]}}, modulus, reciprocal)
		join([]butterfly{{&v[0], &v[2], f[0]}, {&v[1], &v[3], f[0]}}, modulus, reciprocal)
		for i := range v {
			v[i] = s.tame(v[i], 3, 4, modulus, reciprocal)
			store(v[i].VecVirtual, at(x, vectorSize*i))
			narrow[i] = v[i].bounds
		}
		ADDQ(U32(4*vectorSize), x)
		ADDQ(U32(narrowSize), table)
	})
	SUBQ(U32(blockSize), x)

	worst := uniform(0)
	for _, b := range narrow {
		worst = worst.max(b)
	}
	wide := make([]bounds, 8)
	loop("wide", 4, func() {
		v := make([]value, 8)
		for i := range v {
			v[i] = load(at(x, 4*vectorSize*i), worst)
		}
		w := 0
		for half := 1; half <= 4; half *= 2 {
			var layer []butterfly
			for i := 0; i < 8; i += 2 * half {
				f := pairAt(table, w)
				w += pairSize
				for j := i; j < i+half; j++ {
					layer = append(layer, butterfly{&v[j], &v[j+half], f})
				}
			}
			join(layer, modulus, reciprocal)
		}
		for i := range v {
			v[i] = s.tame(v[i], 5, 4, modulus, reciprocal)
			store(v[i].VecVirtual, at(x, 4*vectorSize*i))
			wide[i] = v[i].bounds
		}
		ADDQ(U32(vectorSize), x)
	})
	ADDQ(U32(blockSize-4*vectorSize), x)
	ADDQ(U32(wideSize), table)
	DECQ(block)
	JNE(LabelRef("block"))
	SUBQ(U32(s.radix*blockSize), x)

	b := uniform(0)
	for _, w := range wide {
		b = b.max(w)
	}
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
		for i := range v {
			r := mul(v[i], pairAt(table, 0), modulus)
			store(r.VecVirtual, at(x, blockSize*i))
		}
		ADDQ(U32(vectorSize), x)
	})
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
