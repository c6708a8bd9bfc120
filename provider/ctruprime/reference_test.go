package ctruprime

import (
	"bytes"
	"crypto/sha3"
)

// This file is a second, slow implementation of the scheme, written from its
// text and sharing nothing with the package but the names of the errors it
// compares: schoolbook products, the extended Euclidean algorithm, strings of
// single bits, the E8 decoder with its squares. The tests hold the package
// against it on fresh random input. It branches and divides on secrets.

// reference is a parameter set as the scheme's table gives it.
type reference struct {
	n, q, eta, d, messageSize, coinSize int
	publicKeySize, privatePoly          int
}

// references are the sets by their names.
var references = map[string]*reference{
	"CTRU-Prime-653":  {653, 4621, 3, 11, 40, 490, 1062, 327},
	"CTRU-Prime-761":  {761, 4591, 2, 10, 47, 381, 1237, 381},
	"CTRU-Prime-1277": {1277, 7879, 2, 10, 79, 639, 2076, 639},
}

// ringProduct returns a*b in Z[x]/(x^n - x - 1).
func ringProduct(a, b []int) []int {
	n := len(a)
	s := make([]int, 2*n-1)
	for i, x := range a {
		if x == 0 {
			continue
		}
		for j, y := range b {
			s[i+j] += x * y
		}
	}
	for i := 2*n - 2; i >= n; i-- { // x^i = x^(i-n) * (x + 1)
		s[i-n] += s[i]
		s[i-n+1] += s[i]
	}
	return s[:n]
}

// mod returns a mod m in [0, m).
func mod(a, m int) int { return (a%m + m) % m }

// modAll returns each of a mod m in [0, m).
func modAll(a []int, m int) []int {
	out := make([]int, len(a))
	for i, x := range a {
		out[i] = mod(x, m)
	}
	return out
}

// inverseMod returns a^-1 mod the prime q.
func inverseMod(a, q int) int {
	r, s, u, v := q, mod(a, q), 0, 1
	for s != 0 {
		k := r / s
		r, s, u, v = s, r-k*s, v, u-k*v
	}
	return mod(u, q)
}

// ringInverse returns a^-1 in Z_q[x]/(x^n - x - 1) by the extended Euclidean
// algorithm.
func (r *reference) ringInverse(a []int) []int {
	trim := func(p []int) []int {
		for len(p) > 0 && p[len(p)-1] == 0 {
			p = p[:len(p)-1]
		}
		return p
	}
	// subtract returns p - c * x^shift * s.
	subtract := func(p, s []int, c, shift int) []int {
		for len(p) < len(s)+shift {
			p = append(p, 0)
		}
		for i, x := range s {
			p[i+shift] = mod(p[i+shift]-c*x, r.q)
		}
		return trim(p)
	}
	f := make([]int, r.n+1)
	f[0], f[1], f[r.n] = r.q-1, r.q-1, 1
	g := trim(modAll(a, r.q))
	u, v := []int{}, []int{1} // f = u*a and g = v*a modulo x^n - x - 1
	for len(g) > 1 {
		lead := inverseMod(g[len(g)-1], r.q)
		for len(f) >= len(g) {
			c, shift := f[len(f)-1]*lead%r.q, len(f)-len(g)
			f, u = subtract(f, g, c, shift), subtract(u, v, c, shift)
		}
		f, g, u, v = g, f, v, u
	}
	out, scale := make([]int, r.n), inverseMod(g[0], r.q)
	for i, x := range v {
		out[i] = x * scale % r.q
	}
	return out
}

// bit returns bit k of a little-endian string of bits.
func bit(data []byte, k int) int { return int(data[k/8]>>(k%8)) & 1 }

// packBits packs values of so many bits each.
func packBits(values []int, width int) []byte {
	out := make([]byte, (len(values)*width+7)/8)
	for i, v := range values {
		for j := range width {
			k := i*width + j
			out[k/8] |= byte(v>>j&1) << (k % 8)
		}
	}
	return out
}

// unpackBits is the inverse of packBits.
func unpackBits(data []byte, width, count int) []int {
	out := make([]int, count)
	for i := range out {
		for j := range width {
			out[i] |= bit(data, i*width+j) << j
		}
	}
	return out
}

// binomial samples from coins.
func (r *reference) binomial(coins []byte) []int {
	out := make([]int, r.n)
	for i := range out {
		for j := range r.eta {
			out[i] += bit(coins, 2*r.eta*i+j) - bit(coins, 2*r.eta*i+r.eta+j)
		}
	}
	return out
}

// word returns the E8 codeword of a nibble.
func (r *reference) word(nibble int) int {
	return [16]int{
		0x00, 0x55, 0x0f, 0x5a, 0x3c, 0x69, 0x33, 0x66,
		0xf0, 0xa5, 0xff, 0xaa, 0xcc, 0x99, 0xc3, 0x96,
	}[nibble]
}

// decode decodes a block of eight values in [0, 2^d).
func (r *reference) decode(v []int) int {
	modulus := 1 << r.d
	var c0, c1 [8]int
	for i, x := range v {
		c0[i] = min(x, modulus-x) * min(x, modulus-x)
		c1[i] = (x - modulus/2) * (x - modulus/2)
	}
	bestCost, bestWord, bestR := -1, 0, 0
	for rr := range 2 {
		word, cost, weakest, parity := 0, 0, 0, 0
		var delta [4]int
		for i := range 4 {
			a, b := c0[2*i]+c0[2*i+1], c1[2*i]+c1[2*i+1]
			if rr == 1 {
				a, b = c1[2*i]+c0[2*i+1], c0[2*i]+c1[2*i+1]
			}
			if b < a {
				word |= 1 << i
				parity ^= 1
			}
			cost += min(a, b)
			delta[i] = max(a, b) - min(a, b)
			if delta[i] < delta[weakest] {
				weakest = i
			}
		}
		if parity == 1 {
			word ^= 1 << weakest
			cost += delta[weakest]
		}
		if bestCost < 0 || cost < bestCost {
			bestCost, bestWord, bestR = cost, word, rr
		}
	}
	return ((bestWord^bestWord<<1)&3|bestWord>>1&4)<<1 | bestR
}

// encrypt encrypts m with coins.
func (r *reference) encrypt(pk, m, coins []byte) []byte {
	h := unpackBits(pk, 13, r.n)
	c := make([]int, r.n)
	for i, x := range modAll(ringProduct(r.binomial(coins), h), r.q) {
		c[i] = (x<<r.d + r.q/2) / r.q
		if block := i / 8; block < 2*r.messageSize {
			nibble := int(m[block/2]) >> (4 * (block % 2)) & 15
			c[i] += r.word(nibble) >> (i % 8) & 1 << (r.d - 1)
		}
	}
	return packBits(modAll(c, 1<<r.d), r.d)
}

// secret returns the secret polynomial of a packed private key.
func (r *reference) secret(sk []byte) []int {
	f := unpackBits(sk, 4, r.n)
	for i := range f {
		f[i] = 2*r.eta + 1 - f[i]
	}
	return f
}

// decrypt decrypts ct.
func (r *reference) decrypt(sk, ct []byte) []byte {
	t := modAll(ringProduct(r.secret(sk), unpackBits(ct, r.d, r.n)), 1<<r.d)
	m := make([]byte, r.messageSize)
	for block := range 2 * r.messageSize {
		m[block/2] |= byte(r.decode(t[8*block:8*block+8]) << (4 * (block % 2)))
	}
	return m
}

// generate returns the packed private key of a seed and z.
func (r *reference) generate(seed, z []byte) (sk []byte) {
	coins := sha3.SumSHAKE256(seed, 2*r.coinSize)
	f, g := r.binomial(coins[:r.coinSize]), r.binomial(coins[r.coinSize:])
	nibbles := make([]int, r.n)
	for i := range f {
		f[i] *= 2
	}
	f[0]++
	for i, x := range f {
		nibbles[i] = 2*r.eta + 1 - x
	}
	h := modAll(ringProduct(g, r.ringInverse(f)), r.q)
	return bytes.Join([][]byte{packBits(nibbles, 4), packBits(h, 13), z}, nil)
}

// hash returns SHA3-512 of the start of pk and of what follows.
func (r *reference) hash(pk []byte, rest ...[]byte) []byte {
	sum := sha3.Sum512(append(bytes.Clone(pk[:33]), bytes.Join(rest, nil)...))
	return sum[:]
}

// encapsulate returns a ciphertext and its key.
func (r *reference) encapsulate(pk, seed []byte) (ct, key []byte) {
	m := sha3.SumSHAKE256(seed, r.messageSize)
	sum := r.hash(pk, m)
	return r.encrypt(pk, m, sha3.SumSHAKE256(sum[32:], r.coinSize)), sum[:32]
}

// publicKey returns the packed public key in a private key.
func (r *reference) publicKey(sk []byte) []byte {
	return sk[r.privatePoly:][:r.publicKeySize]
}

// rejectedKey returns the key of a ciphertext that nobody encapsulated.
func (r *reference) rejectedKey(sk, ct []byte) []byte {
	return r.hash(r.publicKey(sk), sk[len(sk)-32:], ct)[:32]
}

// decapsulate returns the key of ct.
func (r *reference) decapsulate(sk, ct []byte) []byte {
	pk := r.publicKey(sk)
	m := r.decrypt(sk, ct)
	sum := r.hash(pk, m)
	if !bytes.Equal(r.encrypt(pk, m, sha3.SumSHAKE256(sum[32:], r.coinSize)), ct) {
		return r.rejectedKey(sk, ct)
	}
	return sum[:32]
}

// validPublicKey reports whether a string of the right length is a public key.
func (r *reference) validPublicKey(pk []byte) bool {
	h := unpackBits(pk, 13, r.n)
	for _, x := range h {
		if x >= r.q {
			return false
		}
	}
	return bytes.Equal(packBits(h, 13), pk)
}
