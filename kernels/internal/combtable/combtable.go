// Package combtable computes the tables of multiples from which kernels/comb.cuh adds up a multiple of a fixed point. It works on public
// points only, in variable time, and must not be given secrets.
//
// A table has an entry for each of 38 windows of 7 bits and each of the 64 odd multiples (2j+1) 128^w P of the point. Rows are laid out
// for a warp whose lanes load two entries each: table[window][entry / 32][row][entry % 32][4 words].
package combtable

import "math/big"

const (
	Windows    = 38
	Entries    = 64
	windowBits = 7
	lanes      = 32
)

// Words are 32-bit words, least significant first.
type Words []uint32

// words returns x as n words.
func words(x *big.Int, n int) Words {
	w := make(Words, n)
	for i, mask := 0, big.NewInt(1<<32-1); i < n; i++ {
		w[i] = uint32(new(big.Int).And(new(big.Int).Rsh(x, uint(32*i)), mask).Uint64())
	}
	return w
}

// position returns where word i of entry j of window w lies.
func position(entryWords, w, j, i int) int {
	rows := entryWords / 4
	return (((w*Entries/lanes+j/lanes)*rows+i/4)*lanes+j%lanes)*4 + i%4
}

// layout returns the table whose entry j of window w is entry(w, j), each of as many words.
func layout(entryWords int, entry func(w, j int) Words) Words {
	t := make(Words, Windows*Entries*entryWords)
	for w := range Windows {
		for j := range Entries {
			for i, word := range entry(w, j) {
				t[position(entryWords, w, j, i)] = word
			}
		}
	}
	return t
}

// field is arithmetic modulo a prime.
type field struct{ p *big.Int }

func (f field) reduce(x *big.Int) *big.Int { return x.Mod(x, f.p) }
func (f field) mul(x, y *big.Int) *big.Int { return f.reduce(new(big.Int).Mul(x, y)) }
func (f field) add(x, y *big.Int) *big.Int { return f.reduce(new(big.Int).Add(x, y)) }
func (f field) sub(x, y *big.Int) *big.Int { return f.reduce(new(big.Int).Sub(x, y)) }
func (f field) div(x, y *big.Int) *big.Int { return f.mul(x, new(big.Int).ModInverse(y, f.p)) }

// number reads a decimal or hexadecimal number of a standard.
func number(s string) *big.Int {
	x, ok := new(big.Int).SetString(s, 0)
	if !ok {
		panic("combtable: not a number: " + s)
	}
	return x
}

// point is an affine point.
type point struct{ x, y *big.Int }

// multiples calls f with every entry's point, window by window.
func multiples(p point, add func(a, b point) point, f func(w, j int, p point)) {
	for w := range Windows {
		twice, multiple := add(p, p), p
		for j := range Entries {
			f(w, j, multiple)
			multiple = add(multiple, twice)
		}
		for range windowBits {
			p = add(p, p)
		}
	}
}
