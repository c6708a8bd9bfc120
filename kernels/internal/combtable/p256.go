package combtable

import (
	"crypto/elliptic"
	"errors"
	"math/big"
)

// NIST P-256 (FIPS 186-5, SP 800-186, section 3.2.1.3): y^2 = x^3 - 3x + b modulo p, with a base point of order n.
var (
	p256      = elliptic.P256().Params()
	p256Field = field{p256.P}
	// What kernels call R: numbers modulo p and n are held as multiples of it.
	montgomery = new(big.Int).Lsh(big.NewInt(1), 256)
)

// p256Add adds two affine points, neither the other's negative.
func p256Add(a, b point) point {
	f := p256Field
	var slope *big.Int
	if a.x.Cmp(b.x) == 0 {
		three := big.NewInt(3)
		slope = f.div(f.mul(three, f.sub(f.mul(a.x, a.x), big.NewInt(1))), f.add(a.y, a.y)) // a = -3
	} else {
		slope = f.div(f.sub(b.y, a.y), f.sub(b.x, a.x))
	}
	x := f.sub(f.sub(f.mul(slope, slope), a.x), b.x)
	return point{x, f.sub(f.mul(slope, f.sub(a.x, x)), a.y)}
}

// P256 returns the table of a point other than the one at infinity. An entry is 16 words: x and y times R. It takes some 50 ms.
func P256(x, y *big.Int) (Words, error) {
	f := p256Field
	rhs := f.add(f.mul(x, f.sub(f.mul(x, x), big.NewInt(3))), p256.B)
	if x.Sign() < 0 || y.Sign() < 0 || x.Cmp(p256.P) >= 0 || y.Cmp(p256.P) >= 0 || f.mul(y, y).Cmp(rhs) != 0 {
		return nil, errors.New("combtable: the point is not on P-256")
	}
	entries := map[[2]int]Words{}
	multiples(point{x, y}, p256Add, func(w, j int, p point) {
		entries[[2]int{w, j}] = append(words(f.mul(p.x, montgomery), 8), words(f.mul(p.y, montgomery), 8)...)
	})
	return layout(16, func(w, j int) Words { return entries[[2]int{w, j}] }), nil
}

// P256Base returns the table of the base point.
func P256Base() Words {
	t, err := P256(p256.Gx, p256.Gy)
	if err != nil {
		panic(err) // it is on the curve
	}
	return t
}

// P256Constants returns what the kernels need to know of p and n, with R = 2^256: the modulus and powers of R modulo it, which turn
// a number into a multiple of R and back.
func P256Constants() (p, n map[string]Words) {
	of := func(name string, m *big.Int) map[string]Words {
		power := func(e int64) Words { return words(new(big.Int).Exp(montgomery, big.NewInt(e), m), 8) }
		return map[string]Words{name: words(m, 8), "r": power(1), "r2": power(2), "r3": power(3)}
	}
	return of("p", p256.P), of("n", p256.N)
}

// P256NegativeInverse returns -1/n modulo 2^32.
func P256NegativeInverse() uint32 {
	m := big.NewInt(1 << 32)
	return uint32(new(big.Int).Sub(m, new(big.Int).ModInverse(p256.N, m)).Uint64())
}
