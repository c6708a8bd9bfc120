package ctruprime

import "fmt"

// MaxKeyGroup is how many keys GenerateKeysBytes makes with one inversion.
const MaxKeyGroup = 32

// GenerateKeysBytes is GenerateKeyBytes for many keys: seeds[i] makes sks[i].
// It inverts one product of up to MaxKeyGroup secret polynomials instead of
// each of them, so that keys cost a fraction of what they do one by one, least
// in multiples of MaxKeyGroup. On an error no key is written. seeds[i] may
// overlap sks[i], but no other key, and no two keys may overlap.
func (s *Scheme) GenerateKeysBytes(sks, seeds [][]byte) error {
	if len(sks) != len(seeds) {
		return fmt.Errorf("ctruprime: %d seeds for %d keys: there must be as many", len(seeds), len(sks))
	}
	for i := range sks {
		if err := s.checkKeyGeneration(sks[i], seeds[i]); err != nil {
			return err
		}
	}
	for len(sks) > 0 {
		size := min(len(sks), MaxKeyGroup)
		if size == 1 {
			s.generateKey(sks[0], seeds[0])
		} else {
			s.generateKeys(sks[:size], seeds[:size])
		}
		sks, seeds = sks[size:], seeds[size:]
	}
	return nil
}

// keyGroup is the scratch memory of one group of keys. It holds secrets.
type keyGroup struct {
	f        [MaxKeyGroup]spectrum // the transform of each f'
	dividend [MaxKeyGroup]poly     // each g times the f of the keys before
	prefix   poly                  // the product of the f so far
	inverse  poly                  // the inverse of that product

	rejections [MaxKeyGroup][RejectionSize]byte // each z

	// The coins of the keys in lanes, twice coinSize, and the hash that makes them.
	coins [maxLanes][]byte
	lanes laneHash

	// The low and high limbs of two elements of R_q and their product.
	a, b limbs
	c    [3]spectrum
}

// limbs are the transforms of the limbs of an element of R_q.
type limbs struct{ low, high spectrum }

func newKeyGroup(p *parameters) *keyGroup {
	k := &keyGroup{prefix: make(poly, p.half), inverse: make(poly, p.half)}
	for i := range MaxKeyGroup {
		k.f[i], k.dividend[i] = make(spectrum, p.size), make(poly, p.half)
	}
	for _, s := range []*spectrum{&k.a.low, &k.a.high, &k.b.low, &k.b.high, &k.c[0], &k.c[1], &k.c[2]} {
		*s = make(spectrum, p.size)
	}
	for i := range k.coins {
		k.coins[i] = make([]byte, p.coinSize+p.sampleSize())
	}
	k.lanes.Init(p.vector != nil && p.vector.avx512)
	return k
}

func (k *keyGroup) wipe() {
	for i := range k.coins {
		clear(k.coins[i])
	}
	k.lanes.Reset()
	for i := range MaxKeyGroup {
		clear(k.f[i])
		clear(k.dividend[i])
	}
	clear(k.prefix)
	clear(k.inverse)
	clear(k.rejections[:])
	for _, s := range []spectrum{k.a.low, k.a.high, k.b.low, k.b.high, k.c[0], k.c[1], k.c[2]} {
		clear(s)
	}
}

// generateKeys makes 2 to MaxKeyGroup keys.
func (s *Scheme) generateKeys(sks, seeds [][]byte) {
	w, d, k := s.borrow(), s.borrowDivision(), s.borrowGroup()
	defer s.giveBack(w)
	defer s.giveBackDivision(d)
	defer s.giveBackGroup(k)
	// A seed may lie in its key, which generateGroup writes.
	for i, seed := range seeds {
		copy(k.rejections[i][:], seed[SeedSize:])
	}
	s.generateGroup(sks, seeds, w, d, k)
	for i, sk := range sks {
		copy(s.rejectionOf(sk), k.rejections[i][:])
	}
}

// generateGroup makes the keys by Montgomery's trick, all but their z. With
// e_i = f_0 * ... * f_i it computes 1/e_i downwards from the last, which is
// inverted, and the public keys h_i = (g_i * e_(i-1)) * 1/e_i. R_q is a field
// and no f is zero, so no key can spoil the others.
func (p *parameters) generateGroup(sks, seeds [][]byte, w *workspace, d *division, k *keyGroup) {
	if p.vector != nil {
		p.generateGroupVector(sks, seeds, w, d, k)
		return
	}
	clear(k.prefix)
	k.prefix[0] = 1
	for i := range sks {
		half, g := w.large, w.small
		p.sampleKey(sks[i], half, g, seeds[i][:SeedSize], w)

		p.forward(k.f[i], half)
		p.forward(w.secretKey(), k.prefix)
		// n * q/2 * eta < Q/2: 4.53M, 3.49M, 10.06M, here and below.
		p.multiply(w.product, w.secretKey(), g)
		p.canonical(k.dividend[i], w.product)
		p.multiplySecret(k.prefix, w.secretKey(), k.f[i], w)
	}

	p.invertPoly(k.inverse, k.prefix, d)
	for i := len(sks) - 1; i >= 0; i-- {
		p.splitLimbs(&k.a, k.inverse, w)
		p.splitLimbs(&k.b, k.dividend[i], w)
		p.multiplyLimbs(w.product, k)
		p.packPublicKey(sks[i][p.privatePoly:], w.product)

		p.joinLimbs(w.secretKey(), &k.a)
		p.multiplySecret(k.inverse, w.secretKey(), k.f[i], w)
	}
}

// multiplySecret multiplies a by f = 2f'+1 modulo q, given the transforms
// of a and f'. It does not multiply by f itself, whose product would overflow
// for 1277.
func (p *parameters) multiplySecret(a poly, transform, half spectrum, w *workspace) {
	p.pointwise(w.product, transform, half)
	p.inverse(w.product)
	p.fold(w.product)
	// A folded product is below twice its bound, so this is below
	// 4 * 10.06M + q/2 < 2^26.
	for i, x := range a[:p.n] {
		w.product[i] = 2*w.product[i] + int32(x)
	}
	p.canonical(a, w.product)
}

// canonical sets out to x mod q, centred, for |x[i]| <= 2^26.
func (p *parameters) canonical(out poly, x spectrum) {
	var v [8]uint16
	for i := range p.groups() {
		p.reduce(&v, (*[8]int32)(x[8*i:]))
		group := (*[8]int16)(out[8*i:])
		for j, y := range v {
			group[j] = int16(p.centre(int32(y)))
		}
	}
}

// The product of two elements of R_q exceeds Q: n * (q/2)^2 is 3.5 to 20
// thousand millions, and splitting one factor in two does not bring it below
// Q/2 = 16.77M. Both are split into a = 128*high + low, |low| <= 64 and
// |high| <= 31. Then n * 64 * 64 = 2.68M, 3.12M, 5.23M bounds the product of
// the low limbs, and n * 2 * 64 * 31 = 2.59M, 3.02M, 5.07M the sum of the mixed
// ones.

const limbBits = 7

// splitLimbs sets out to the transforms of the limbs of a, |a[i]| <= q/2.
func (p *parameters) splitLimbs(out *limbs, a poly, w *workspace) {
	const round = 1 << (limbBits - 1)
	limb := w.small
	for i, x := range a {
		limb[i] = (x + round) >> limbBits
	}
	p.forward(out.high, limb)
	for i, x := range a {
		limb[i] = (x+round)&(1<<limbBits-1) - round
	}
	p.forward(out.low, limb)
}

// joinLimbs sets out to the transform of what a was split from. forward leaves
// less than 4.1Q and mul adds at most (Q+1)/2, so |out[i]| < 5Q.
func (p *parameters) joinLimbs(out spectrum, a *limbs) {
	for i := range out {
		out[i] = a.low[i] + int32(mul(int64(a.high[i]), limbFactor))
	}
}

var limbFactor = newFactor(1 << limbBits)

// multiplyLimbs sets product to k.a * k.b modulo q, |product[i]| <= 2^26.
func (p *parameters) multiplyLimbs(product spectrum, k *keyGroup) {
	low, mixed, high := k.c[0], k.c[1], k.c[2]
	p.pointwise(low, k.a.low, k.b.low)
	p.pointwise(high, k.a.high, k.b.high)
	p.pointwise(mixed, k.a.low, k.b.high)
	p.pointwise(product, k.a.high, k.b.low)
	for i, x := range product {
		mixed[i] = int32(mul(int64(mixed[i]+x), one))
	}
	for _, x := range k.c {
		p.inverse(x)
		p.fold(x)
	}
	// Horner's rule: (high*128 + mixed)*128 + low. A folded product is at most
	// twice its bound above.
	p.shiftAdd(mixed, high)
	p.shiftAdd(low, mixed)
	copy(product, low)
}

// shiftAdd adds 128 times high mod q to low.
func (p *parameters) shiftAdd(low, high spectrum) {
	var v [8]uint16
	for i := range p.groups() {
		p.reduce(&v, (*[8]int32)(high[8*i:]))
		group := (*[8]int32)(low[8*i:])
		for j, x := range v {
			group[j] += int32(x) << limbBits
		}
	}
}

// one reduces: mul(a, one) is a mod Q.
var one = newFactor(1)
