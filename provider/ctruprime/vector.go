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
func newVectorized(p *parameters, level vectorLevel) *vectorized {
	if level == portable || !vec.HasAVX2 || level == avx512 && !vec.HasAVX512 {
		return nil
	}
	return &vectorized{
		Codec:  vec.NewCodec(p.n, int(p.q), p.eta, int(p.d)),
		ring:   vec.NewRing(p.n, int(p.q), p.leaf, vectorPrimes[p.n]...),
		avx512: level == avx512,
	}
}

// bestLevel is the fastest code that this processor runs.
func bestLevel() vectorLevel {
	switch {
	case vec.HasAVX512:
		return avx512
	case vec.HasAVX2:
		return avx2
	}
	return portable
}

// residues returns the part of a spectrum for prime number i.
func (v *vectorized) residues(x spectrum, i int) vec.Spectrum {
	n := v.ring.Words()
	return vec.Spectrum(x[i*n : (i+1)*n])
}

// transform sets out to the transforms of in, |in[i]| <= q/2.
func (v *vectorized) transform(out spectrum, in poly) {
	for i := range 2 {
		v.ring.Forward(i, v.residues(out, i), in)
	}
}

// multiply sets product to the coefficients of a*b before they are folded, where
// a is a transform.
func (v *vectorized) multiply(product, a spectrum, b poly) {
	for i := range 2 {
		s := v.residues(product, i)
		v.ring.Forward(i, s, b)
		v.ring.Multiply(i, s, s, v.residues(a, i))
	}
}

// multiplyQ sets out to a*b in R_q: |out[i]| < 3q.
func (v *vectorized) multiplyQ(out poly, a spectrum, b poly, w *workspace) {
	v.multiply(w.product, a, b)
	v.ring.FoldQ(out, v.residues(w.product, 0), v.residues(w.product, 1))
}

// encrypt is parameters.encrypt.
func (v *vectorized) encrypt(ct []byte, h spectrum, w *workspace) {
	v.Sample(w.small, w.coins)
	v.multiplyQ(w.small, h, w.small, w)
	vec.Codewords(w.words, w.message[:cap(w.message)])
	v.Compress(ct, w.small, w.words, &w.tail)
}

// decrypt is parameters.decrypt.
func (v *vectorized) decrypt(ct []byte, f spectrum, w *workspace) {
	v.UnpackCiphertext(w.large, ct, &w.tail)
	v.multiply(w.product, f, w.large)
	v.ring.FoldWord(w.large, v.residues(w.product, 0), v.residues(w.product, 1))
	whole := w.message[:cap(w.message)]
	v.Decode(whole, w.large)
	clear(whole[len(w.message):])
}

// publish packs g times the polynomial whose transform is key.
func (v *vectorized) publish(pk []byte, key spectrum, g poly, w *workspace) {
	v.multiplyQ(g, key, g, w)
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
