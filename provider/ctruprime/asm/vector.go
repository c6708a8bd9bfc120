package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// A value is a register of 16 words with what is known of them: for each
// modulus that the routine serves, a bound of their absolute values. The
// generator stops if a sum could exceed 16 bits.
type value struct {
	VecVirtual
	bounds bounds
}

// bounds has one entry for each modulus in use.
type bounds []int64

// moduli are those that the routine being written serves.
var moduli []int64

const wordLimit = 1<<15 - 1

func uniform(b int64) bounds {
	all := make(bounds, len(moduli))
	for i := range all {
		all[i] = b
	}
	return all
}

func (b bounds) plus(c bounds) bounds {
	sum := make(bounds, len(b))
	for i := range b {
		sum[i] = b[i] + c[i]
		if sum[i] > wordLimit {
			panic(fmt.Sprintf("asm: a sum modulo %d may reach %d", moduli[i], sum[i]))
		}
	}
	return sum
}

// montgomery bounds the product with a centred constant: |a*w/2^16 - m*p/2^16|
// with |w| <= p/2 and -2^15 <= m < 2^15.
func (b bounds) montgomery() bounds {
	product := make(bounds, len(b))
	for i, p := range moduli {
		product[i] = (b[i]*(p/2)+p<<15)>>16 + 1
	}
	return product
}

// barrett bounds x - round(x*round(2^15/p)/2^15)*p by trying every x.
func (b bounds) barrett() bounds {
	reduced := make(bounds, len(b))
	for i, p := range moduli {
		v := (1<<15 + p/2) / p
		for x := -b[i]; x <= b[i]; x++ {
			r := x - (x*v+1<<14)>>15*p
			reduced[i] = max(reduced[i], r, -r)
		}
	}
	return reduced
}

// exceeds reports whether some bound is above numerator/denominator of its
// modulus.
func (b bounds) exceeds(numerator, denominator int64) bool {
	for i, p := range moduli {
		if b[i]*denominator > numerator*p {
			return true
		}
	}
	return false
}

func (b bounds) max(c bounds) bounds {
	m := make(bounds, len(b))
	for i := range b {
		m[i] = max(b[i], c[i])
	}
	return m
}

// at is the memory at a base plus a number of bytes.
func at(base Register, bytes int) Mem { return Mem{Base: base, Disp: bytes} }

func load(m Op, b bounds) value {
	r := YMM()
	VMOVDQU(m, r)
	return value{r, b}
}

func store(v VecVirtual, m Mem) { VMOVDQU(v, m) }

func add(a, b value) value {
	r := YMM()
	VPADDW(b.VecVirtual, a.VecVirtual, r)
	return value{r, a.bounds.plus(b.bounds)}
}

func sub(a, b value) value {
	r := YMM()
	VPSUBW(b.VecVirtual, a.VecVirtual, r)
	return value{r, a.bounds.plus(b.bounds)}
}

// A factor is a constant w as memory or registers hold it: w*2^16 mod p,
// centred, and that times p^-1 mod 2^16, in every word.
type factor struct{ low, high Op }

// pairAt is the factor in two vectors at a base, low first.
func pairAt(base Register, bytes int) factor { return factor{at(base, bytes), at(base, bytes+32)} }

// mul returns a*w mod p, by Montgomery's reduction; p is in every word of
// modulus.
func mul(a value, w factor, modulus Op) value {
	low, high := YMM(), YMM()
	VPMULLW(w.low, a.VecVirtual, low)
	VPMULHW(w.high, a.VecVirtual, high)
	VPMULHW(modulus, low, low)
	VPSUBW(low, high, high)
	return value{high, a.bounds.montgomery()}
}

// mulAll is mul for values that are independent of each other.
func mulAll(all []value, w []factor, modulus Op) []value {
	low, high := make([]VecVirtual, len(all)), make([]VecVirtual, len(all))
	for i, a := range all {
		low[i], high[i] = YMM(), YMM()
		VPMULLW(w[i].low, a.VecVirtual, low[i])
	}
	for i, a := range all {
		VPMULHW(w[i].high, a.VecVirtual, high[i])
	}
	for i := range all {
		VPMULHW(modulus, low[i], low[i])
	}
	products := make([]value, len(all))
	for i, a := range all {
		VPSUBW(low[i], high[i], high[i])
		products[i] = value{high[i], a.bounds.montgomery()}
	}
	return products
}

// negated returns -a*w mod p.
func negated(a value, w factor, modulus Op) value {
	low, high := YMM(), YMM()
	VPMULLW(w.low, a.VecVirtual, low)
	VPMULHW(w.high, a.VecVirtual, high)
	VPMULHW(modulus, low, low)
	VPSUBW(high, low, high)
	return value{high, a.bounds.montgomery()}
}

// reduce returns a mod p near its least absolute residue; reciprocal holds
// round(2^15/p).
func reduce(a value, modulus, reciprocal Op) value {
	t, r := YMM(), YMM()
	VPMULHRSW(reciprocal, a.VecVirtual, t)
	VPMULLW(modulus, t, t)
	VPSUBW(t, a.VecVirtual, r)
	return value{r, a.bounds.barrett()}
}

// reduceAll is reduce for values that are independent of each other.
func reduceAll(all []value, modulus, reciprocal Op) []value {
	t, reduced := make([]VecVirtual, len(all)), make([]value, len(all))
	for i, a := range all {
		t[i] = YMM()
		VPMULHRSW(reciprocal, a.VecVirtual, t[i])
	}
	for i := range all {
		VPMULLW(modulus, t[i], t[i])
	}
	for i, a := range all {
		r := YMM()
		VPSUBW(t[i], a.VecVirtual, r)
		reduced[i] = value{r, a.bounds.barrett()}
	}
	return reduced
}

// swapHalves returns the two low and the two high halves of a and b.
func swapHalves(a, b value) (low, high value) {
	l, h := YMM(), YMM()
	VPERM2I128(U8(0x20), b.VecVirtual, a.VecVirtual, l)
	VPERM2I128(U8(0x31), b.VecVirtual, a.VecVirtual, h)
	m := a.bounds.max(b.bounds)
	return value{l, m}, value{h, m}
}

// broadcast fills a register with the 32 bits at m.
func broadcast(m Mem) VecVirtual {
	r := YMM()
	VPBROADCASTD(m, r)
	return r
}

// loop runs body so many times.
func loop(name string, count int, body func()) {
	i := GP64()
	MOVQ(U32(count), i)
	Label(name)
	body()
	DECQ(i)
	JNE(LabelRef(name))
}
