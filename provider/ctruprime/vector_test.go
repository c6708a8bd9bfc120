//go:build amd64 && !noasm

package ctruprime

import (
	"bytes"
	"crypto/sha3"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/ctrutls/ctrutls/provider/ctruprime/internal/vec"
)

// Each routine of vector code against portable code on the same input, which a
// fuzzer chooses: set picks the parameter set, data is cut or padded.

// A routineTest compares what one routine makes of data with what portable code
// makes of it. size is the length of data that it takes.
type routineTest struct {
	size    func(s *Scheme) int
	compare func(t *testing.T, s, plain *Scheme, data []byte)
}

// vectorPairs has each parameter set with vector code, if the processor has it,
// beside portable code. On AVX-512 all but the hash is the code for AVX2.
var vectorPairs = func() (pairs [len(allSchemes)][2]*Scheme) {
	for i, s := range allSchemes {
		pairs[i] = [2]*Scheme{newSchemeFor(s.parameters, bestLevel()), newSchemeFor(s.parameters, Portable)}
	}
	return pairs
}()

func (r routineTest) fuzz(f *testing.F) {
	for set := range byte(len(allSchemes)) {
		for _, fill := range []byte{0, 0xff, 0x55, 0x80} {
			f.Add(set, bytes.Repeat([]byte{fill}, r.size(vectorPairs[set][0])))
		}
	}
	f.Fuzz(func(t *testing.T, set byte, data []byte) {
		s, plain := vectorPairs[int(set)%len(allSchemes)][0], vectorPairs[int(set)%len(allSchemes)][1]
		if s.vector == nil {
			return // portable code is compared with itself elsewhere
		}
		r.compare(t, s, plain, fit(data, r.size(s)))
	})
}

// TestRoutines runs every comparison on random data of the right size.
func TestRoutines(t *testing.T) {
	r := newRandom(t)
	for name, test := range routineTests {
		for i := range allSchemes {
			s, plain := vectorPairs[i][0], vectorPairs[i][1]
			t.Run(name+"/"+s.name, func(t *testing.T) {
				for range 8 {
					if s.vector != nil {
						test.compare(t, s, plain, r.bytes(test.size(s)))
					}
				}
			})
		}
	}
}

// TestExtremes multiplies polynomials whose coefficients are at their bounds, in
// signs that make single coefficients of the product as large as they can be.
func TestExtremes(t *testing.T) {
	for i := range allSchemes {
		s, plain := vectorPairs[i][0], vectorPairs[i][1]
		if s.vector == nil {
			continue
		}
		for _, c := range []struct {
			name    string
			a, b    int // bounds
			compare func(t *testing.T, s, plain *Scheme, data []byte)
		}{
			{"product", int(s.q / 2), s.eta, compareProduct},
			{"productWord", 2*s.eta + 1, 1 << s.d / 2, compareProductWord},
			{"productFull", int(s.q / 2), int(s.q / 2), compareProductFull},
		} {
			for signs := range 16 {
				data := make([]byte, 2*polyBytes(s))
				for j := range 2 * s.n {
					bound, half := c.a, signs&3
					if j >= s.n {
						bound, half = c.b, signs>>2
					}
					// All negative, all positive, or one of each in turn; or a
					// change in the middle.
					positive := [4]bool{false, true, j%2 == 0, j%s.n < s.n/2}[half]
					if positive {
						binary.LittleEndian.PutUint16(data[2*j:], uint16(2*bound))
					}
				}
				t.Run(c.name+"/"+s.name, func(t *testing.T) { c.compare(t, s, plain, data) })
			}
		}
	}
}

func FuzzVectorSample(f *testing.F)      { routineTests["sample"].fuzz(f) }
func FuzzVectorPublicKey(f *testing.F)   { routineTests["publicKey"].fuzz(f) }
func FuzzVectorPrivateKey(f *testing.F)  { routineTests["privateKey"].fuzz(f) }
func FuzzVectorCiphertext(f *testing.F)  { routineTests["ciphertext"].fuzz(f) }
func FuzzVectorCompress(f *testing.F)    { routineTests["compress"].fuzz(f) }
func FuzzVectorDecode(f *testing.F)      { routineTests["decode"].fuzz(f) }
func FuzzVectorProduct(f *testing.F)     { routineTests["product"].fuzz(f) }
func FuzzVectorProductWord(f *testing.F) { routineTests["productWord"].fuzz(f) }
func FuzzVectorProductFull(f *testing.F) { routineTests["productFull"].fuzz(f) }
func FuzzVectorInverse(f *testing.F)     { routineTests["inverse"].fuzz(f) }
func FuzzVectorEqual(f *testing.F)       { routineTests["equal"].fuzz(f) }
func FuzzVectorHash(f *testing.F)        { routineTests["hash"].fuzz(f) }

// polyFrom reads n coefficients of absolute value at most bound.
func polyFrom(s *Scheme, data []byte, bound int) poly {
	p := make(poly, s.half)
	for i := range p[:s.n] {
		x := int(binary.LittleEndian.Uint16(data[2*i:]))
		p[i] = int16(x%(2*bound+1) - bound)
	}
	return p
}

// polyBytes is how many bytes polyFrom reads.
func polyBytes(s *Scheme) int { return 2 * s.n }

func equalPolys(t *testing.T, what string, got, want poly) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func equalBytes(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Fatalf("%s: got %x, want %x", what, got, want)
	}
}

var routineTests = map[string]routineTest{
	"sample":      {(*Scheme).sampleBytes, compareSample},
	"publicKey":   {(*Scheme).PublicKeySize, comparePublicKey},
	"privateKey":  {func(s *Scheme) int { return s.privatePoly }, comparePrivateKey},
	"ciphertext":  {(*Scheme).CiphertextSize, compareCiphertext},
	"compress":    {func(s *Scheme) int { return polyBytes(s) + s.messageSize }, compareCompress},
	"decode":      {polyBytes, compareDecode},
	"product":     {func(s *Scheme) int { return 2 * polyBytes(s) }, compareProduct},
	"productWord": {func(s *Scheme) int { return 2 * polyBytes(s) }, compareProductWord},
	"productFull": {func(s *Scheme) int { return 2 * polyBytes(s) }, compareProductFull},
	"inverse":     {polyBytes, compareInverse},
	"equal":       {func(s *Scheme) int { return 2 * s.ciphertextSize }, compareEqual},
	"hash":        {func(*Scheme) int { return 4 * shakeRate }, compareHash},
}

func (s *Scheme) sampleBytes() int { return s.sampleSize() }

func compareSample(t *testing.T, s, plain *Scheme, data []byte) {
	got, want := make(poly, s.half), make(poly, s.half)
	s.sample(got, data)
	plain.sample(want, append(data, 0, 0, 0, 0, 0, 0, 0, 0))
	equalPolys(t, "sample", got, want)
}

func comparePublicKey(t *testing.T, s, plain *Scheme, data []byte) {
	got, want := make(poly, s.half), make(poly, s.half)
	if s.unpackPublicKey(got, data) != plain.unpackPublicKey(want, data) {
		t.Fatalf("%x: validity differs", data)
	}
	equalPolys(t, "public key", got, want)

	// As any 16-bit words modulo q, packed.
	for i := range got[:s.n] {
		got[i] = int16(uint16(got[i])*7 ^ uint16(data[i%len(data)])<<8)
	}
	packed, wantPacked := make([]byte, s.publicKeySize), make([]byte, s.publicKeySize)
	var tail vec.Scratch
	s.vector.PackKey(packed, got, &tail)
	plain.packPublicKey(wantPacked, widened(s, got))
	equalBytes(t, "packed public key", packed, wantPacked)
}

func comparePrivateKey(t *testing.T, s, plain *Scheme, data []byte) {
	got, want := make(poly, s.half), make(poly, s.half)
	if s.unpackPrivatePoly(got, data) != plain.unpackPrivatePoly(want, data) {
		t.Fatalf("%x: validity differs", data)
	}
	equalPolys(t, "private key", got, want)

	half := make(poly, s.half)
	for i := range half[:s.n] {
		half[i] = int16(int(data[i/2])%(2*s.eta+1) - s.eta)
	}
	packed, wantPacked := make([]byte, s.privatePoly), make([]byte, s.privatePoly)
	s.packPrivatePoly(packed, half)
	plain.packPrivatePoly(wantPacked, half)
	equalBytes(t, "packed private key", packed, wantPacked)
}

func compareCiphertext(t *testing.T, s, plain *Scheme, data []byte) {
	got, want := make(poly, s.half), make(poly, s.half)
	var tail vec.Scratch
	s.vector.UnpackCiphertext(got, data, &tail)
	plain.unpackCiphertext(want, data)
	equalPolys(t, "ciphertext", got, want)
}

// widened returns p as portable code has a folded product.
func widened(s *Scheme, p poly) spectrum {
	x := make(spectrum, s.size)
	for i, c := range p[:s.n] {
		x[i] = int32(c)
	}
	return x
}

func compareCompress(t *testing.T, s, plain *Scheme, data []byte) {
	in := polyFrom(s, data, 3*int(s.q)-1)
	w := newWorkspace(&s.parameters)
	copy(w.message, data[polyBytes(s):])
	got, want := make([]byte, s.ciphertextSize), make([]byte, s.ciphertextSize)
	vec.Codewords(w.words, w.message[:cap(w.message)])
	s.vector.Compress(got, in, w.words, &w.tail)
	plain.encode(want, widened(s, in), w.message)
	equalBytes(t, "compressed", got, want)
}

func compareDecode(t *testing.T, s, plain *Scheme, data []byte) {
	in := polyFrom(s, data, 1<<15-1)
	got, want := make([]byte, (s.messageSize+7)/8*8), make([]byte, s.messageSize)
	s.vector.Decode(got, append(in, make(poly, 128)...))
	plain.decode(want, widened(s, in))
	equalBytes(t, "decoded", got[:s.messageSize], want)
}

// compareProduct multiplies an element of R_q by a small polynomial. Both are at
// their bounds if data is.
func compareProduct(t *testing.T, s, plain *Scheme, data []byte) {
	a, b := polyFrom(s, data, int(s.q/2)), polyFrom(s, data[polyBytes(s):], s.eta)
	w, v := newWorkspace(&s.parameters), newWorkspace(&plain.parameters)
	plain.forward(v.room, a)
	plain.multiply(v.product, v.room, b)
	want := make(poly, s.half)
	plain.canonical(want, v.product)

	s.transform(w.room, a)
	got := make(poly, s.half)
	s.vector.multiplyQ(got, w.room, b, w)
	s.vector.ring.Centre(got, got)
	equalPolys(t, "product", got, want)
}

// compareProductWord multiplies a ciphertext's polynomial by a secret one.
func compareProductWord(t *testing.T, s, plain *Scheme, data []byte) {
	f, c := polyFrom(s, data, 2*s.eta+1), polyFrom(s, data[polyBytes(s):], 1<<s.d/2)
	w, v := newWorkspace(&s.parameters), newWorkspace(&plain.parameters)
	plain.forward(v.room, f)
	plain.multiply(v.product, v.room, c)
	want := make(poly, s.half)
	for i := range want[:s.n] {
		want[i] = int16(v.product[i])
	}

	s.transform(w.room, f)
	s.vector.multiply(w.product, w.room, c)
	got := make(poly, s.half)
	s.vector.ring.FoldWord(got, s.vector.residues(w.product, 0), s.vector.residues(w.product, 1))
	equalPolys(t, "product", got, want)
}

func compareProductFull(t *testing.T, s, plain *Scheme, data []byte) {
	a, b := polyFrom(s, data, int(s.q/2)), polyFrom(s, data[polyBytes(s):], int(s.q/2))
	w, v := newWorkspace(&s.parameters), newWorkspace(&plain.parameters)
	k, l := newKeyGroup(&s.parameters), newKeyGroup(&plain.parameters)
	plain.splitLimbs(&l.a, a, v)
	plain.splitLimbs(&l.b, b, v)
	plain.multiplyLimbs(v.product, l)
	want := make(poly, s.half)
	plain.canonical(want, v.product)

	got := make(poly, s.half)
	s.vector.multiplyFull(got, a, b, k, w)
	s.vector.ring.Centre(got, got)
	equalPolys(t, "product", got, want)

	// And times 2b'+1 for a small b'.
	small := polyFrom(s, data[polyBytes(s):], s.eta)
	plain.forward(l.f[0], small)
	plain.forward(v.room, a)
	want = slices.Clone(a)
	plain.multiplySecret(want, v.room, l.f[0], v)
	s.transform(w.room, a)
	s.vector.ring.Swap(small, small)
	for i := range 2 {
		s.vector.ring.Forward(i, s.vector.residues(k.f[0], i), small)
	}
	s.vector.multiplySecret(a, w.room, k.f[0], w)
	equalPolys(t, "product with a secret", a, want)
}

func compareInverse(t *testing.T, s, plain *Scheme, data []byte) {
	in := polyFrom(s, data, int(s.q/2))
	if !slices.ContainsFunc(in, func(x int16) bool { return x != 0 }) {
		in[0] = 1
	}
	got, want := make(poly, s.half), make(poly, s.half)
	s.invertPoly(got, in, newDivision(&s.parameters))
	plain.invertPoly(want, in, newDivision(&plain.parameters))
	equalPolys(t, "inverse", got, want)
}

func compareEqual(t *testing.T, s, plain *Scheme, data []byte) {
	a, b := data[:s.ciphertextSize], data[s.ciphertextSize:]
	for _, pair := range [][2][]byte{{a, b}, {a, bytes.Clone(a)}} {
		if got, want := s.equal(pair[0], pair[1]), plain.equal(pair[0], pair[1]); got != want {
			t.Errorf("equal(%x, %x): got %d, want %d", pair[0], pair[1], got, want)
		}
	}
}

// compareHash hashes in four lanes, all at once and one by one.
func compareHash(t *testing.T, s, _ *Scheme, data []byte) {
	all := func(k *vec.Keccak4) { k.Permute() }
	each := func(k *vec.Keccak4) {
		for lane := range maxLanes {
			k.PermuteOne(lane)
		}
	}
	compareHashBy(t, false, all, data)
	compareHashBy(t, false, each, data)
	compareHashBy(t, s.vector.avx512, all, data)
}

func compareHashBy(t *testing.T, wide bool, permute func(*vec.Keccak4), data []byte) {
	var k vec.Keccak4
	k.Init(wide)
	for lane := range maxLanes {
		in := data[lane*shakeRate:][:shakeRate]
		k.AbsorbLast(lane, shakeRate, shakeDomain, in[:int(in[0])%shakeRate])
	}
	permute(&k)
	for lane := range maxLanes {
		in, got := data[lane*shakeRate:][:shakeRate], make([]byte, shakeRate)
		k.Squeeze(lane, got)
		equalBytes(t, "hash", got, sha3.SumSHAKE256(in[:int(in[0])%shakeRate], len(got)))
	}
}

// TestDivisionIsWiped inverts, wipes and looks at what vector code divided.
func TestDivisionIsWiped(t *testing.T) {
	for _, pair := range vectorPairs {
		s := pair[0]
		if s.vector == nil {
			continue
		}
		d := newDivision(&s.parameters)
		a := make(poly, s.half)
		a[1] = 1
		s.invertPoly(a, a, d)
		if v := d.vector; allZero(v.F) || allZero(v.V) {
			t.Fatalf("%s: the division left nothing behind", s.name)
		}
		d.wipe()
		if v := d.vector; !allZero(v.F) || !allZero(v.G) || !allZero(v.V) || !allZero(v.R) {
			t.Errorf("%s: the division is not wiped", s.name)
		}
	}
}
