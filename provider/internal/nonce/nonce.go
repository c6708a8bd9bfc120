package nonce

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
)

const (
	// Size is the size in bytes of a private key, a digest and a nonce: big-endian
	// numbers.
	Size = 32
	// MaxExtra is the most bytes of additional data.
	MaxExtra = 32

	blockSize = sha256.BlockSize
	// The longest message that is authenticated: V || 0 || key || digest || extra.
	maxMessage = Size + 1 + 2*Size + MaxExtra
)

// order is the number of points of P-256 (SP 800-186, section 3.2.1.3), least
// significant word first.
var order = [4]uint64{0xf3b9cac2fc632551, 0xbce6faada7179e84, 0xffffffffffffffff, 0xffffffff00000000}

// Derive writes the nonce for a signature of digest by key to out: a number from
// 1 to the order of P-256 less 1, uniform to whoever does not know the key. key
// is such a number too. All three have Size bytes. extra is fresh randomness,
// at most MaxExtra bytes; with none the nonce is the deterministic one of RFC
// 6979. The time that it takes depends on the length of extra, and with
// probability 2^-32 on a candidate that was not taken.
func Derive(out, key, digest, extra []byte) {
	if len(out) != Size || len(key) != Size || len(digest) != Size || len(extra) > MaxExtra {
		panic(fmt.Sprintf("nonce: sizes of %d, %d, %d and %d bytes; want %d three times and at most %d", len(out), len(key), len(digest), len(extra), Size, MaxExtra))
	}
	var g generator
	defer g.wipe()
	g.seed(key, digest, extra)
	for g.next(); !inRange(g.v[:]); g.next() {
		g.reject()
	}
	copy(out, g.v[:])
}

// A generator is the HMAC_DRBG that RFC 6979 makes of its input, in the RFC's
// names; a candidate is as long as a hash, so that one V is one candidate.
type generator struct {
	k, v  [Size]byte
	block [blockSize + maxMessage]byte // what is hashed
}

// seed runs steps b to g.
func (g *generator) seed(key, digest, extra []byte) {
	for i := range g.v {
		g.v[i] = 1
	}
	var seed [2*Size + MaxExtra]byte
	defer clear(seed[:])
	copy(seed[:], key)
	reduce(seed[Size:2*Size], digest)
	n := 2*Size + copy(seed[2*Size:], extra)
	for step := range 2 {
		g.update(byte(step), seed[:n])
	}
}

// update sets K = HMAC_K(V || step || data) and V = HMAC_K(V).
func (g *generator) update(step byte, data []byte) {
	message := g.block[blockSize:]
	n := copy(message, g.v[:])
	message[n] = step
	n++
	n += copy(message[n:], data)
	g.mac(&g.k, n)
	g.next()
}

// next sets V = HMAC_K(V).
func (g *generator) next() {
	g.mac(&g.v, copy(g.block[blockSize:], g.v[:]))
}

// reject goes on behind a candidate that is no nonce (step h.3).
func (g *generator) reject() { g.update(0, nil) }

// mac sets to = HMAC-SHA-256 by K (RFC 2104) of the n bytes that lie in block
// behind the room for the padded key. crypto/hmac does the same at twice the cost
// where each key serves once or twice, and leaves its keys in memory.
func (g *generator) mac(to *[Size]byte, n int) {
	g.pad(0x36)
	inner := sha256.Sum256(g.block[:blockSize+n])
	g.pad(0x5c)
	copy(g.block[blockSize:], inner[:])
	*to = sha256.Sum256(g.block[:blockSize+sha256.Size])
}

func (g *generator) pad(with byte) {
	for i := range blockSize {
		g.block[i] = with
	}
	for i, b := range g.k {
		g.block[i] ^= b
	}
}

func (g *generator) wipe() { *g = generator{} }

// subtractOrder returns a number less the order, and 1 if it is below it.
func subtractOrder(number []byte) (difference [4]uint64, borrow uint64) {
	for i := range difference {
		difference[i], borrow = bits.Sub64(binary.BigEndian.Uint64(number[Size-8*(i+1):]), order[i], borrow)
	}
	return difference, borrow
}

// reduce writes a number modulo the order (bits2octets), without a branch: any
// number of 256 bits is below twice the order.
func reduce(out, number []byte) {
	difference, below := subtractOrder(number)
	keep := -below
	for i, d := range difference {
		at := Size - 8*(i+1)
		binary.BigEndian.PutUint64(out[at:], binary.BigEndian.Uint64(number[at:])&keep|d&^keep)
	}
}

// inRange says whether a candidate is a nonce: not zero, and below the order.
func inRange(candidate []byte) bool {
	_, below := subtractOrder(candidate)
	var any uint64
	for i := 0; i < Size; i += 8 {
		any |= binary.BigEndian.Uint64(candidate[i:])
	}
	return below == 1 && any != 0
}
