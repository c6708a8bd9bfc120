package kernels

import (
	"embed"
	"fmt"
)

//go:generate ./build-ptx.sh

//go:embed ptx/*.ptx
var ptxFiles embed.FS

// A Module is one PTX text: the kernels of a curve, or those of a set that multiply in one way. A set's base module, of
// multiplication MMA, also has its hashes and inversion, which all multiplications share.
type Module struct {
	N              int
	Multiplication Multiplication
	Curve          Curve // if not NoCurve, the others do not matter
}

// Curve is an elliptic curve with kernels.
type Curve int

const (
	NoCurve    Curve = iota
	Curve25519       // RFC 7748
	P256             // NIST's, FIPS 186-5
)

// String returns the name of the curve's module.
func (c Curve) String() string {
	switch c {
	case NoCurve:
		return "none"
	case Curve25519:
		return "curve25519"
	case P256:
		return "p256"
	}
	return fmt.Sprintf("Curve(%d)", int(c))
}

// Name returns the module's name, which is that of its PTX file without the ending: ctruprime761, ctruprime761_ntt, curve25519.
func (m Module) Name() string {
	switch {
	case m.Curve != NoCurve:
		return m.Curve.String()
	case m.Multiplication == MMA:
		return fmt.Sprintf("ctruprime%d", m.N)
	}
	return fmt.Sprintf("ctruprime%d_%s", m.N, m.Multiplication)
}

// PTX returns the module's text.
func (m Module) PTX() ([]byte, error) {
	text, err := ptxFiles.ReadFile("ptx/" + m.Name() + ".ptx")
	if err != nil {
		return nil, fmt.Errorf("kernels: there is no module %s", m.Name())
	}
	return text, nil
}

// Multiplication is a way to compute products. The zero value leaves the choice to Plan.
type Multiplication int

const (
	DefaultMultiplication Multiplication = iota
	MMA                                  // Tensor Cores
	NTT                                  // incomplete number-theoretic transform
	Tiled                                // tiled 64-bit integer matrix product
)

// Multiplications lists what a Multiplication can be, the default apart.
func Multiplications() []Multiplication { return []Multiplication{MMA, NTT, Tiled} }

// String returns the name in the kernels' entries.
func (m Multiplication) String() string {
	switch m {
	case DefaultMultiplication:
		return "default"
	case MMA:
		return "mma"
	case NTT:
		return "ntt"
	case Tiled:
		return "tiled"
	}
	return fmt.Sprintf("Multiplication(%d)", int(m))
}

// Shape is how a batch is spread over launches and threads. The zero value leaves the choice to Plan.
type Shape int

const (
	DefaultShape Shape = iota
	One                // a launch, a block an operation
	Split              // launches for hashing and for products; hashes with an operation a thread
	SplitWarp          // the same with hashes a warp an operation: sooner done while there are few
)

// String returns the shape's name.
func (s Shape) String() string {
	switch s {
	case DefaultShape:
		return "default"
	case One:
		return "one"
	case Split:
		return "split"
	case SplitWarp:
		return "splitwarp"
	}
	return fmt.Sprintf("Shape(%d)", int(s))
}

// Operation is what a batch does.
type Operation int

const (
	Encaps Operation = iota
	Decaps
	KeyGen
)

// Operations lists them.
func Operations() []Operation { return []Operation{Encaps, Decaps, KeyGen} }

// String returns the operation's name.
func (o Operation) String() string {
	switch o {
	case Encaps:
		return "encaps"
	case Decaps:
		return "decaps"
	case KeyGen:
		return "keygen"
	}
	return fmt.Sprintf("Operation(%d)", int(o))
}

// SeedSize is the size in bytes of a seed, of z, and of a shared key.
const SeedSize = 32

// layout is what the kernels' constants say of a set; see layout.go.
type layout struct {
	public, cipher, secret                      int
	messageRow, coinRow, keyCoinRow, residueRow int
	encryptor, decryptor, selector              int
	encapsOne, decapsOne                        int
	keyPairs, keyUp, keyDown, keyFinish         int
	sharedKeyMatrix, sharedKeyWarp              int
	inversionThreads                            int
	nttThreads, nttBlock                        int
	tiledThreads, tiledBlock                    int
}

// A Set is the kernels of one parameter set.
type Set struct {
	n int
	layout
}

// NewSet returns the kernels of CTRU-Prime-n, n being 653, 761 or 1277.
func NewSet(n int) (*Set, error) {
	l, ok := layouts[n]
	if !ok {
		return nil, fmt.Errorf("kernels: there is no parameter set CTRU-Prime-%d; there are 653, 761 and 1277", n)
	}
	return &Set{n: n, layout: l}, nil
}

// N returns the polynomials' degree, which names the set.
func (s *Set) N() int { return s.n }

// PublicKeySize returns the size of a packed public key in bytes.
func (s *Set) PublicKeySize() int { return s.public }

// SecretKeySize returns the size of a packed secret key in bytes.
func (s *Set) SecretKeySize() int { return s.secret }

// CiphertextSize returns the size of a ciphertext in bytes.
func (s *Set) CiphertextSize() int { return s.cipher }

// InputSize returns the bytes of an operation's input row; table says whether keys come from a table.
func (s *Set) InputSize(op Operation, table bool) int {
	switch {
	case op == Encaps && table:
		return SeedSize
	case op == Encaps:
		return s.public + SeedSize
	case op == Decaps && table:
		return s.cipher
	case op == Decaps:
		return s.secret + s.cipher
	default:
		return 2 * SeedSize
	}
}

// KeySize returns the bytes of a row of an operation's table: a public key for Encaps, a secret key for Decaps.
func (s *Set) KeySize(op Operation) int {
	if op == Encaps {
		return s.public
	}
	return s.secret
}

// OutputSize returns the bytes of an operation's output row.
func (s *Set) OutputSize(op Operation) int {
	switch op {
	case Encaps:
		return s.cipher + SeedSize
	case Decaps:
		return SeedSize
	default:
		return s.secret
	}
}
