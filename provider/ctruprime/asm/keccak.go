package main

import (
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Keccak-f[1600] (FIPS 202, section 3) on one state in general registers, and on
// four at once in vectors of AVX2 and of AVX-512. Lane (x, y) of a state is its
// word x + 5y; four states are interleaved.

const (
	keccakRounds = 24
	laneSpacing  = 32 // bytes between words of a state
)

func keccak() {
	permuteAVX512()
	permuteAVX2()
	permuteOne()
	absorb()
	squeeze()
}

// rotation is the number of bits that rho rotates lane (x, y) by.
func rotation(x, y int) int {
	u, v := 1, 0
	for t := range keccakRounds {
		if u == x && v == y {
			return (t + 1) * (t + 2) / 2 % 64
		}
		u, v = v, (2*u+3*v)%5
	}
	return 0
}

// rowInput returns the lane that pi moves to (column, row).
func rowInput(column, row int) (x, y int) {
	for x := range 5 {
		if (2*x+3*column)%5 == row {
			return x, column
		}
	}
	panic("asm: pi is a permutation")
}

// places says where a state in memory has lane (x, y): at word places[x][y].
//
// A round in place writes each row where the lanes that make it up were read:
// column x where the one of them was that came from column x. After
// periodInPlace rounds every lane is back at its own place.
type places [5][5]int

const periodInPlace = 4

func firstPlaces() (p places) {
	for x := range 5 {
		for y := range 5 {
			p[x][y] = x + 5*y
		}
	}
	return p
}

// next returns the places after a round in place.
func (p *places) next() (q places) {
	for row := range 5 {
		for column := range 5 {
			x, y := rowInput(column, row)
			q[x][row] = p[x][y]
		}
	}
	return q
}

// word is the memory of lane (x, y).
func (p *places) word(state Register, x, y int) Mem { return at(state, laneSpacing*p[x][y]) }
