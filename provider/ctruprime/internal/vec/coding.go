//go:build amd64 && !noasm

package vec

// Codec has the codings of one parameter set: degree n, prime q, coins of
// 2*eta bits and ciphertexts of d bits a coefficient. It is immutable.
type Codec struct {
	n, q, eta, d                          int
	unpackKey, packKey, compress, decoded table
}

// Scratch is room for the ends of packed polynomials.
type Scratch = [64]byte

// keyBits is the width of a public key's coefficient.
const keyBits = 13

// NewCodec needs eta 2 or 3 and d 10 or 11.
func NewCodec(n, q, eta, d int) *Codec {
	c := &Codec{n: n, q: q, eta: eta, d: d}
	fill := func(t *table, words ...int) {
		for _, w := range words {
			t.full(w)
		}
	}
	fill(&c.unpackKey, q-1, q/2, q)
	fill(&c.packKey, q, modulus(q).reciprocal())
	fill(&c.compress, (1<<(15+d)+q/2)/q, q, q/2, -q/2)
	fill(&c.decoded, 1<<d-1, 1<<d/2, 1<<d/4)
	return c
}

func (c *Codec) vectors() int { return (c.n + lanes - 1) / lanes }

// SampleSize is the number of bytes of coins that Sample may read.
func (c *Codec) SampleSize() int { return (c.n+63)/64*16*c.eta + 8 }

// Sample sets out to the centred binomial polynomial of coins.
func (c *Codec) Sample(out []int16, coins []byte) {
	_ = coins[c.SampleSize()-1]
	if c.eta == 2 {
		steps := (c.n + 63) / 64
		_ = out[64*steps-1]
		sample2(&out[0], &coins[0], steps)
	} else {
		steps := (c.n + 31) / 32
		_ = out[32*steps-1]
		sample3(&out[0], &coins[0], steps)
	}
	clear(out[c.n:])
}

// split says how many of a packed polynomial's vectors of 2*bits bytes can be
// read or written in place, a vector taking over bytes more than its own.
func (c *Codec) split(length, bits, over int) int {
	return min(c.vectors(), (length-over)/(2*bits))
}

// UnpackKey sets out to the centred coefficients of a packed public key, of which
// it reports whether it is valid: each below q, padding zero. The key is public.
func (c *Codec) UnpackKey(out []int16, pk []byte, tail *Scratch) bool {
	n := c.split(len(pk), keyBits, 16-keyBits)
	_ = out[lanes*c.vectors()-1]
	excess := unpack13(&out[0], &pk[0], &c.unpackKey[0], n)
	if rest := c.vectors() - n; rest > 0 {
		*tail = Scratch{}
		copy(tail[:], pk[2*keyBits*n:])
		excess |= unpack13(&out[lanes*n], &tail[0], &c.unpackKey[0], rest)
	}
	clear(out[c.n:])
	used := keyBits * c.n % 8
	return excess == 0 && pk[len(pk)-1]>>used == 0
}

// UnpackCiphertext sets out to the coefficients of a ciphertext, in two's
// complement of d bits. Padding is ignored.
func (c *Codec) UnpackCiphertext(out []int16, ct []byte, tail *Scratch) {
	n := c.split(len(ct), c.d, 16-c.d)
	_ = out[lanes*c.vectors()-1]
	unpack := unpack10
	if c.d == 11 {
		unpack = unpack11
	}
	unpack(&out[0], &ct[0], n)
	if rest := c.vectors() - n; rest > 0 {
		*tail = Scratch{}
		copy(tail[:], ct[2*c.d*n:])
		unpack(&out[lanes*n], &tail[0], rest)
	}
	clear(out[c.n:])
}

// Compress sets ct to the compressed coefficients of in, |in[i]| < 3q and zero
// from n on, with 2^d/2 added where words has a one.
func (c *Codec) Compress(ct []byte, in []int16, words []byte, tail *Scratch) {
	n := c.split(len(ct), c.d, 16-c.d)
	_, _ = in[lanes*c.vectors()-1], words[2*c.vectors()-1]
	compress := compress10
	if c.d == 11 {
		compress = compress11
	}
	compress(&ct[0], &in[0], &words[0], &c.compress[0], n)
	for i := n; i < c.vectors(); i++ {
		compress(&tail[0], &in[lanes*i], &words[2*i], &c.compress[0], 1)
		copy(ct[2*c.d*i:], tail[:2*c.d])
	}
}

// PackKey packs in mod q, for |in[i]| < 2^15 and zero from n on.
func (c *Codec) PackKey(pk []byte, in []int16, tail *Scratch) {
	n := c.split(len(pk), keyBits, 16-keyBits)
	_ = in[lanes*c.vectors()-1]
	pack13(&pk[0], &in[0], &c.packKey[0], n)
	for i := n; i < c.vectors(); i++ {
		pack13(&tail[0], &in[lanes*i], &c.packKey[0], 1)
		copy(pk[2*keyBits*i:], tail[:2*keyBits])
	}
}

// Codewords sets words to the codewords of message, whose length is a multiple
// of 16; they take twice as much.
func Codewords(words, message []byte) {
	_ = words[2*len(message)-1]
	codewords(&words[0], &message[0], len(message)/16)
}

// Decode sets message to what the coefficients in, taken modulo 2^d, are nearest
// to: eight bytes for each 128 of them.
func (c *Codec) Decode(message []byte, in []int16) {
	steps := len(message) / 8
	_ = in[128*steps-1]
	decode(&message[0], &in[0], &c.decoded[0], steps)
}

// PackSecret packs f = 2*half + 1 as nibbles 2*eta+1 - f[i].
func (c *Codec) PackSecret(out []byte, half []int16, tail *Scratch) {
	top := 2*c.eta + 1
	n := c.n / 32
	_ = half[32*n+31]
	packSecret(&out[0], &half[0], top, n)
	packSecret(&tail[0], &half[32*n], top, 1)
	copy(out[16*n:(c.n+1)/2], tail[:])
	out[c.n/2] &= 15 // n is odd
	out[0]--         // f[0] = 2*half[0] + 1
}

// UnpackSecret sets f to a packed secret and reports whether it is valid: no
// nibble above 4*eta+1, padding zero.
func (c *Codec) UnpackSecret(f []int16, in []byte, tail *Scratch) bool {
	top, limit := 2*c.eta+1, 4*c.eta+1
	n := c.n / 32
	_, _ = f[32*n+31], in[(c.n+1)/2-1]
	excess := unpackSecret(&f[0], &in[0], top, limit, n)
	*tail = Scratch{}
	copy(tail[:], in[16*n:(c.n+1)/2])
	excess |= unpackSecret(&f[32*n], &tail[0], top, limit, 1)
	clear(f[c.n:])
	return excess|uint32(in[c.n/2]>>4) == 0
}

// Difference returns zero if a and b, of the same length of 32 bytes or more, are
// the same.
func Difference(a, b []byte) uint64 {
	last := len(a) - 32
	_, _ = a[last:], b[last:last+32]
	return difference(&a[0], &b[0], last)
}
