package ctruprime

import "strings"

const (
	// SharedKeySize is the length in bytes of the shared key of every set.
	SharedKeySize = 32

	// SeedSize is the length in bytes of the seed that a key's polynomials
	// are expanded from.
	SeedSize = 32

	// RejectionSize is the length in bytes of z, the secret that ends a
	// private key and stands in for the message when a ciphertext is
	// rejected.
	RejectionSize = 32

	// KeySeedSize is the length in bytes of what a key pair is derived from:
	// the seed, then z.
	KeySeedSize = SeedSize + RejectionSize

	// EncapsulationSeedSize is the length in bytes of the seed of
	// EncapsulateDeterministically and its relatives.
	EncapsulationSeedSize = 32

	// keyIDSize is how much of the packed public key is hashed into a key.
	keyIDSize = 33

	// codedPublicKeyBits is the width of one packed public-key coefficient.
	codedPublicKeyBits = 13

	// codedPrivateKeyBits is the width of one packed secret coefficient.
	codedPrivateKeyBits = 4
)

// parameters is one parameter set: the ring Z_q[x]/(x^n - x - 1), the
// noise, the ciphertext modulus 2^d, and what follows from them.
type parameters struct {
	name string

	n   int   // degree of the ring; n <= half
	q   int32 // prime modulus of the ring
	eta int   // the centred binomial's width: coefficients in [-eta, eta]
	d   uint  // bits of a ciphertext coefficient

	// recip is ceil(2^64 / q), the factor that stands in for a division by q.
	recip uint64
	// lift is the least multiple of q that is >= 2^26: added to a coefficient
	// of a folded product it makes it positive.
	lift int32
	// minusInverse is -q^-1 mod 2^16.
	minusInverse uint64

	leaf int // degree of the transform's leaves
	size int // points of the transform, leaves * leaf
	half int // size / 2: the length that polynomials are padded to

	messageSize    int // bytes of the encrypted message: two E8 blocks each
	coinSize       int // bytes of coins of one centred binomial polynomial
	privatePoly    int // bytes of the packed secret polynomial
	publicKeySize  int
	privateKeySize int
	ciphertextSize int
}

// newParameters derives everything else from the numbers that define a set.
func newParameters(name string, n int, q int32, eta int, d uint, leaf int) parameters {
	p := parameters{name: name, n: n, q: q, eta: eta, d: d, leaf: leaf}
	p.recip = ^uint64(0)/uint64(q) + 1 // q is odd, so it does not divide 2^64
	p.lift = (1<<26 + q - 1) / q * q
	p.minusInverse = minusInverse16(q)
	p.size = leaves * leaf
	p.half = p.size / 2
	p.messageSize = n / 16
	p.coinSize = bytesFor(2 * eta * n)
	p.privatePoly = bytesFor(codedPrivateKeyBits * n)
	p.publicKeySize = bytesFor(codedPublicKeyBits * n)
	p.privateKeySize = p.privatePoly + p.publicKeySize + RejectionSize
	p.ciphertextSize = bytesFor(int(d) * n)
	return p
}

// minusInverse16 returns -q^-1 mod 2^16 for odd q, by Newton's iteration.
func minusInverse16(q int32) uint64 {
	x := uint64(q) // q*q = 1 mod 8; each round doubles the bits
	for range 4 {
		x *= 2 - uint64(q)*x
	}
	return -x & lowQuarter
}

// bytesFor is the number of bytes that hold so many bits.
func bytesFor(bits int) int { return (bits + 7) / 8 }

// The three sets. The transform's leaf is chosen so that a product of two
// polynomials of n coefficients, 2n-1 of them, fits its size.
var (
	scheme653  = newScheme(newParameters("CTRU-Prime-653", 653, 4621, 3, 11, 3))
	scheme761  = newScheme(newParameters("CTRU-Prime-761", 761, 4591, 2, 10, 3))
	scheme1277 = newScheme(newParameters("CTRU-Prime-1277", 1277, 7879, 2, 10, 5))

	allSchemes = [...]*Scheme{scheme653, scheme761, scheme1277}
)

// lookup finds a set by its name in any case.
func lookup(name string) *Scheme {
	for _, s := range allSchemes {
		if strings.EqualFold(s.name, name) {
			return s
		}
	}
	return nil
}
