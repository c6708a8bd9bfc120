//go:build amd64 && !noasm

package ctruprime

import "github.com/ctrutls/ctrutls/provider/ctruprime/internal/vec"

// vectorized is what a parameter set uses in place of portable code on a
// processor with AVX2. A spectrum then holds two transforms of package vec, one
// modulo each of two primes, instead of one modulo Q; keys' spectra stay within
// the scheme that made them. Everything else keeps its form.
type vectorized struct {
	*vec.Codec
	ring   *vec.Ring
	avx512 bool
}

// vectorPrimes are the moduli of each parameter set's products, by n.
//
// A folded coefficient of an element of R_q, or of c mod 2^d, times a small
// polynomial has an absolute value of at most (2n-1) * (q/2) * eta or
// (2n-1) * 2^d/2 * (2*eta+1): 9.35M, 6.98M and 20.11M at most, below
// p1*(p2/2-2) = 11.97M, 8.29M and 20.88M. That of two elements of R_q is at most
// (2n-1) * (q/2)^2: 6.96, 8.01 and 39.6 thousand millions, below
// p1*p2*(p3/2-2) = 13.8, 9.53 and 180 of them.
var vectorPrimes = map[int][]int{
	653:  {4801, 4993, 1153},
	761:  {3457, 4801, 1153},
	1277: {5441, 7681, 8641},
}

// newVectorized returns nil if the processor lacks what level needs.
func newVectorized(p *parameters, level Level) *vectorized {
	if level == Portable || !vec.HasAVX2 || level == AVX512 && !vec.HasAVX512 {
		return nil
	}
	return &vectorized{
		Codec:  vec.NewCodec(p.n, int(p.q), p.eta, int(p.d)),
		ring:   vec.NewRing(p.n, int(p.q), p.leaf, level == AVX512, vectorPrimes[p.n]...),
		avx512: level == AVX512,
	}
}

// bestLevel is the fastest code that this processor runs.
func bestLevel() Level {
	switch {
	case vec.HasAVX512:
		return AVX512
	case vec.HasAVX2:
		return AVX2
	}
	return Portable
}

// keyWords is the length of a key's spectrum.
func (v *vectorized) keyWords() int { return 4 * v.ring.Words() }

// residues returns the part of a spectrum for prime number i.
func (v *vectorized) residues(x spectrum, i int) vec.Spectrum {
	n := v.ring.Words()
	return vec.Spectrum(x[i*n : (i+1)*n])
}

// keyResidues returns the part of a key's spectrum for prime number i.
func (v *vectorized) keyResidues(x spectrum, i int) vec.Spectrum {
	n := 2 * v.ring.Words()
	return vec.Spectrum(x[i*n : (i+1)*n])
}

// transform sets out to the transform of a key, |in[i]| <= q/2.
func (v *vectorized) transform(out spectrum, in poly) {
	for i := range 2 {
		v.ring.ForwardKey(i, v.keyResidues(out, i), in)
	}
}

// multiply sets product to the coefficients of key*b before they are folded. It
// exchanges words of b.
func (v *vectorized) multiply(product, key spectrum, b poly) {
	v.ring.Swap(b, b)
	for i := range 2 {
		s := v.residues(product, i)
		v.ring.Forward(i, s, b)
		v.ring.Multiply(i, s, s, v.keyResidues(key, i))
	}
}

// multiplyOnce is multiply for a polynomial that no transform is kept of,
// |a[i]| <= q/2. It does one prime after the other, so that room for half of a
// key's spectrum is enough and stays in the first-level cache.
func (v *vectorized) multiplyOnce(product spectrum, a poly, room spectrum, b poly) {
	v.ring.Swap(b, b)
	key := v.keyResidues(room, 0)
	for i := range 2 {
		s := v.residues(product, i)
		v.ring.ForwardKey(i, key, a)
		v.ring.Forward(i, s, b)
		v.ring.Multiply(i, s, s, key)
	}
}

// fold sets out to the product of multiply or multiplyOnce in R_q:
// |out[i]| < 3q.
func (v *vectorized) fold(out poly, product spectrum) {
	v.ring.FoldQ(out, v.residues(product, 0), v.residues(product, 1))
}

// multiplyQ sets out to key*b in R_q: |out[i]| < 3q. out may be b.
func (v *vectorized) multiplyQ(out poly, key spectrum, b poly, w *workspace) {
	v.multiply(w.product, key, b)
	v.fold(out, w.product)
}

// encrypt is parameters.encrypt. Without a transform, h is w.public.
func (v *vectorized) encrypt(ct []byte, h spectrum, w *workspace) {
	v.Sample(w.small, w.coins)
	if h != nil {
		v.multiply(w.product, h, w.small)
	} else {
		v.multiplyOnce(w.product, w.public, w.room, w.small)
	}
	v.fold(w.small, w.product)
	vec.Codewords(w.words, w.message[:cap(w.message)])
	v.Compress(ct, w.small, w.words, &w.tail)
}

// decrypt is parameters.decrypt. Without a transform, f is w.small.
func (v *vectorized) decrypt(ct []byte, f spectrum, w *workspace) {
	v.UnpackCiphertext(w.large, ct, &w.tail)
	if f != nil {
		v.multiply(w.product, f, w.large)
	} else {
		v.multiplyOnce(w.product, w.small, w.halfSecretKey(), w.large)
	}
	v.ring.FoldWord(w.large, v.residues(w.product, 0), v.residues(w.product, 1))
	whole := w.message[:cap(w.message)]
	v.Decode(whole, w.large)
	clear(whole[len(w.message):])
}

// publish packs g*a, |a[i]| <= q/2.
func (v *vectorized) publish(pk []byte, a, g poly, w *workspace) {
	v.multiplyOnce(w.product, a, w.halfSecretKey(), g)
	v.fold(g, w.product)
	v.PackKey(pk, g, &w.tail)
}

func (v *vectorized) unpackPublicKey(h poly, pk []byte) bool {
	var tail vec.Scratch
	return v.UnpackKey(h, pk, &tail)
}

func (v *vectorized) unpackPrivatePoly(f poly, in []byte) bool {
	var tail vec.Scratch
	valid := v.UnpackSecret(f, in, &tail)
	clear(tail[:])
	return valid
}

func (v *vectorized) packPrivatePoly(out []byte, half poly) {
	var tail vec.Scratch
	v.PackSecret(out, half, &tail)
	clear(tail[:])
}

func (v *vectorized) difference(a, b []byte) uint64 { return vec.Difference(a, b) }

type vectorDivision = vec.Division

func (v *vectorized) newDivision() *vectorDivision { return v.ring.NewDivision() }

// likelyGap is what delta stays within, in absolute value, in the division steps
// of a secret polynomial. It goes beyond where 128 leading coefficients of the
// polynomial are zero, with a probability of 2^-181 for eta = 2 and 2^-214 for
// eta = 3, or where as many of a remainder or of a product of secrets are, each of
// which is zero with a probability of about 1/q.
const likelyGap = 128

// invertVector is invertPoly. Whether a polynomial is one of the unlikely ones,
// which take longer, is public.
func (p *parameters) invertVector(out, in poly, d *vectorDivision) {
	if !declassify(p.divide(in, d, likelyGap)) {
		p.divide(in, d, 2*p.n)
	}
	// The inverse, reversed, is V over x*F, and F is a constant. All words are
	// below 2q in absolute value.
	q, n := int16(p.q), p.n
	scale := p.invert(p.modQ(uint32(d.F[0] + 2*q)))
	for i := range out[:n] {
		x := p.modQ(uint32(d.V[n-i]+2*q) * scale)
		out[i] = int16(p.centre(int32(x)))
	}
	clear(out[n:])
}

// divide does the division steps of x^n - x - 1 by in, and reports whether the gap
// was large enough.
func (p *parameters) divide(in poly, d *vectorDivision, gap int) bool {
	d.Wipe()
	n := p.n
	d.F[0], d.F[n-1], d.F[n] = 1, -1, -1
	for i, x := range in[:n] {
		d.G[n-1-i] = x
	}
	d.R[0] = 1
	return d.Run(gap)
}

// generateGroup is parameters.generateGroup.
func (p *parameters) generateGroupVector(sks, seeds [][]byte, w *workspace, d *division, k *keyGroup) {
	v := p.vector
	clear(k.prefix)
	k.prefix[0] = 1
	for i := range sks {
		half, g := w.large, w.small
		lane := i % maxLanes
		if lane == 0 {
			k.expand(p, seeds[i:min(i+maxLanes, len(seeds))])
		}
		v.Sample(half, k.coins[lane])
		v.packPrivatePoly(sks[i], half)
		v.Sample(g, k.coins[lane][p.coinSize:])

		v.ring.Swap(half, half)
		for j := range 2 {
			v.ring.Forward(j, v.residues(k.f[i], j), half)
		}
		key := w.secretKey()
		v.transform(key, k.prefix)
		v.multiplyQ(k.dividend[i], key, g, w)
		v.ring.Centre(k.dividend[i], k.dividend[i])
		v.multiplySecret(k.prefix, key, k.f[i], w)
	}

	p.invertPoly(k.inverse, k.prefix, d)
	for i := len(sks) - 1; i >= 0; i-- {
		v.multiplyFull(w.large, k.inverse, k.dividend[i], k, w)
		v.PackKey(sks[i][p.privatePoly:][:p.publicKeySize], w.large, &w.tail)
		v.multiplySecret(k.inverse, w.secret, k.f[i], w)
	}
}

// multiplySecret multiplies a, whose transform as a key is given, by f = 2f'+1
// modulo q, given the transform of f'.
func (v *vectorized) multiplySecret(a poly, key, half spectrum, w *workspace) {
	for i := range 2 {
		v.ring.Multiply(i, v.residues(w.product, i), v.residues(half, i), v.keyResidues(key, i))
	}
	v.fold(w.small, w.product)
	v.ring.DoubleAdd(a, w.small, a)
}

// multiplyFull sets out to a*b modulo q for two elements of R_q, and w.secret to the
// transform of a. It exchanges words of b.
func (v *vectorized) multiplyFull(out, a, b poly, k *keyGroup, w *workspace) {
	s := [3]vec.Spectrum{v.residues(w.product, 0), v.residues(w.product, 1), v.residues(k.c[0], 0)}
	keys := [3]vec.Spectrum{v.keyResidues(w.secretKey(), 0), v.keyResidues(w.secretKey(), 1), v.keyResidues(k.c[1], 0)}
	v.ring.Swap(b, b)
	for i := range s {
		v.ring.ForwardKey(i, keys[i], a)
		v.ring.Forward(i, s[i], b)
		v.ring.Multiply(i, s[i], s[i], keys[i])
	}
	v.ring.FoldQ3(out, s[0], s[1], s[2])
}

// halfSecretKey returns the first half of it, which wipe then zeroes.
func (w *workspace) halfSecretKey() spectrum {
	half := len(w.secret) / 2
	w.keyed = max(w.keyed, half)
	return w.secret[:half]
}
