//go:build amd64 && !noasm

package vec

// Ring is Z[x]/(x^n - x - 1) for polynomials whose products have coefficients of
// a bounded size. It is immutable.
type Ring struct {
	n, q                int
	radix               int
	vnni, wide          bool // use VNNI, and registers of 512 bits for division
	transforms          []*transform
	toQ, toWord, centre table
}

// Spectrum holds the transform of a polynomial modulo one prime, two words to an
// element: Ring.Words elements, or twice as many for a key.
type Spectrum []int32

// NewRing returns the ring of degree n with coefficients modulo q. primes are
// two or three; avx512 allows instructions beyond AVX2. A product is exact if the absolute value of its folded
// coefficients is at most p1*(p2/2 - 2), or p1*p2*(p3/2 - 2) with three.
func NewRing(n, q, radix int, avx512 bool, primes ...int) *Ring {
	r := &Ring{n: n, q: q, radix: radix, vnni: avx512 && hasVNNI, wide: avx512 && has512}
	for _, p := range primes {
		r.transforms = append(r.transforms, newTransform(modulus(p), radix))
	}
	r.toQ = r.foldTable(q)
	r.toWord = r.foldTable(0)
	for _, w := range []int{q, q / 2, -q / 2, modulus(q).reciprocal()} {
		r.centre.full(w)
	}
	return r
}

// foldTable is what the fold routines read; q = 0 stands for 2^16.
func (r *Ring) foldTable(q int) table {
	var t table
	t.full(-1)
	t[0] = 0
	p1, p2 := r.transforms[0].p, r.transforms[1].p
	centre := func(p modulus) {
		t.full(int(p))
		t.full(int(p) / 2)
		t.full(-int(p) / 2)
	}
	centre(p2)
	t.pair(p2, p2.invert(int(p1)))
	t.full(q)
	if q == 0 {
		t.full(0)
		t.full(int(p1))
		return t
	}
	t.pair(modulus(q), int(p1))
	if len(r.transforms) == 3 {
		p3 := r.transforms[2].p
		centre(p3)
		t.pair(p3, p3.invert(int(p1)))
		t.pair(p3, p3.invert(int(p2)))
		t.pair(modulus(q), int(p1)*int(p2))
	}
	return t
}

// Length is the number of coefficients of a padded polynomial.
func (r *Ring) Length() int { return r.radix/2*512 + 256 }

// Words is the length of a Spectrum.
func (r *Ring) Words() int { return r.radix * 256 }

// vectors is how many hold n coefficients.
func (r *Ring) vectors() int { return (r.n + lanes - 1) / lanes }

// Swap readies a polynomial for Forward. out may be in.
func (r *Ring) Swap(out, in []int16) {
	_, _ = out[r.Length()-1], in[r.Length()-1]
	swapPairs(&out[0], &in[0], r.Length()/lanes)
}

// Forward transforms a polynomial that Swap has treated, modulo prime number i.
func (r *Ring) Forward(i int, out Spectrum, swapped []int16) {
	_, _ = out[r.Words()-1], swapped[r.Length()-1]
	t := r.transforms[i].forward
	if r.radix == 3 {
		forward3(&out[0], &swapped[0], &t[0])
	} else {
		forward5(&out[0], &swapped[0], &t[0])
	}
}

// ForwardKey transforms a polynomial, as it is, into the other operand of
// Multiply.
func (r *Ring) ForwardKey(i int, out Spectrum, in []int16) {
	_, _ = out[2*r.Words()-1], in[r.Length()-1]
	t := r.transforms[i].forward
	if r.radix == 3 {
		forwardKey3(&out[0], &in[0], &t[0])
	} else {
		forwardKey5(&out[0], &in[0], &t[0])
	}
}

// Multiply sets out, which may be a, to the coefficients modulo prime number i of
// the product of two transforms.
func (r *Ring) Multiply(i int, out, a, key Spectrum) {
	_, _, _ = out[r.Words()-1], a[r.Words()-1], key[2*r.Words()-1]
	t := r.transforms[i]
	switch {
	case r.radix == 3 && r.vnni:
		pointwise3VNNI(&out[0], &a[0], &key[0], &t.pointwise[0])
	case r.radix == 3:
		pointwise3(&out[0], &a[0], &key[0], &t.pointwise[0])
	case r.vnni:
		pointwise5VNNI(&out[0], &a[0], &key[0], &t.pointwise[0])
	default:
		pointwise5(&out[0], &a[0], &key[0], &t.pointwise[0])
	}
	if r.radix == 3 {
		inverse3(&out[0], &t.inverse[0])
	} else {
		inverse5(&out[0], &t.inverse[0])
	}
}

// FoldQ sets out to a product modulo q, given its coefficients modulo the first
// two primes: |out[i]| < 3q, and 0 from n on.
func (r *Ring) FoldQ(out []int16, s1, s2 Spectrum) {
	_, _, _ = s1[r.Words()-1], s2[r.Words()-1], out[r.Length()-1]
	foldQ(&out[0], &s1[0], &s2[0], &r.toQ[0], r.n, r.vectors())
	clear(out[r.n:])
}

// FoldQ3 is FoldQ for three primes.
func (r *Ring) FoldQ3(out []int16, s1, s2, s3 Spectrum) {
	_, _, _, _ = s1[r.Words()-1], s2[r.Words()-1], s3[r.Words()-1], out[r.Length()-1]
	foldQ3(&out[0], &s1[0], &s2[0], &s3[0], &r.toQ[0], r.n, r.vectors())
	clear(out[r.n:])
}

// FoldWord is FoldQ modulo 2^16 instead of q.
func (r *Ring) FoldWord(out []int16, s1, s2 Spectrum) {
	_, _, _ = s1[r.Words()-1], s2[r.Words()-1], out[r.Length()-1]
	foldWord(&out[0], &s1[0], &s2[0], &r.toWord[0], r.n, r.vectors())
	clear(out[r.n:])
}

// Centre reduces in modulo q to least absolute residues. out may be in.
func (r *Ring) Centre(out, in []int16) {
	_, _ = in[r.Length()-1], out[r.Length()-1]
	centreQ(&out[0], &in[0], &r.centre[0], r.vectors())
}

// DoubleAdd is Centre of 2*in + addend, |addend[i]| <= q/2. out may be either.
func (r *Ring) DoubleAdd(out, in, addend []int16) {
	_, _, _ = in[r.Length()-1], out[r.Length()-1], addend[r.Length()-1]
	doubleAddQ(&out[0], &in[0], &addend[0], &r.centre[0], r.vectors())
}
