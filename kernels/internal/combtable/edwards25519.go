package combtable

import "math/big"

// The twisted Edwards curve of RFC 7748, section 4.1: -x^2 + y^2 = 1 + d x^2 y^2 with d = -121665/121666, and its base point.
var (
	edwards     = field{number("0x7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffed")}
	edwardsD    = edwards.div(big.NewInt(-121665), big.NewInt(121666))
	edwardsBase = point{
		number("15112221349535400772501151409588531511454012693041857206046113283949847762202"),
		number("46316835694926478169428394003475163141307993866256225615783033603165251855960"),
	}
	edwardsOrder = number("0x1000000000000000000000000000000014def9dea2f79cd65812631a5cf5d3ed")
)

func edwardsAdd(a, b point) point {
	f := edwards
	xx, yy, one := f.mul(a.x, b.x), f.mul(a.y, b.y), big.NewInt(1)
	cross := f.mul(edwardsD, f.mul(xx, yy))
	return point{
		f.div(f.add(f.mul(a.x, b.y), f.mul(a.y, b.x)), f.add(one, cross)),
		f.div(f.add(yy, xx), f.sub(one, cross)),
	}
}

// Edwards25519 returns the table of the base point B of edwards25519. An entry is 24 words: (y + x)/2, (y - x)/2 and d x y.
func Edwards25519() Words {
	f := edwards
	half := f.div(big.NewInt(1), big.NewInt(2))
	entries := map[[2]int]Words{}
	multiples(edwardsBase, edwardsAdd, func(w, j int, p point) {
		e := words(f.mul(half, f.add(p.y, p.x)), 8)
		e = append(e, words(f.mul(half, f.sub(p.y, p.x)), 8)...)
		entries[[2]int{w, j}] = append(e, words(f.mul(edwardsD, f.mul(p.x, p.y)), 8)...)
	})
	return layout(24, func(w, j int) Words { return entries[[2]int{w, j}] })
}

// Edwards25519TwiceD returns 2d.
func Edwards25519TwiceD() Words { return words(edwards.add(edwardsD, edwardsD), 8) }

// Edwards25519OrderMinus1 returns l - 1 for the order l of B.
func Edwards25519OrderMinus1() Words { return words(new(big.Int).Sub(edwardsOrder, big.NewInt(1)), 8) }
