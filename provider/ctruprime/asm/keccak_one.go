package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// onePermutation is a state that stays in memory; there are registers for one of
// its rows.
type onePermutation struct {
	state  Register
	parity [5]Register // of the columns; those of the next round from the first row on
	lane   [5]Register // of a row
	theta  [3]Register // what theta adds to the first columns
	saved  [2]Mem      // and to the others
	t      Register
	at     places
}

func permuteOne() {
	routine("permuteOne", "func(state *uint64, rounds *[24]uint64)",
		"permuteOne applies Keccak-f[1600] to one of four interleaved states: word i of it",
		"is 4*i words behind state. It needs BMI and BMI2.")
	local := AllocLocal(8 * 4)
	constant, end := local.Offset(16), local.Offset(24)
	k := onePermutation{
		state:  RDI,
		parity: [5]Register{RAX, RBX, RCX, RDX, RSI},
		lane:   [5]Register{R8, R9, R10, R11, R12},
		theta:  [3]Register{R13, R14, R15},
		saved:  [2]Mem{local, local.Offset(8)},
		t:      RBP,
		at:     firstPlaces(),
	}
	Load(Param("state"), RDI)
	Load(Param("rounds"), RBP)
	MOVQ(k.t, constant)
	ADDQ(U32(8*keccakRounds), k.t)
	MOVQ(k.t, end)
	for x, parity := range k.parity {
		MOVQ(k.word(x, 0), parity)
		for y := 1; y < 5; y++ {
			XORQ(k.word(x, y), parity)
		}
	}
	Label("one")
	for i := range periodInPlace {
		MOVQ(constant, k.t)
		MOVQ(at(k.t, 8*i), k.t)
		k.round()
	}
	MOVQ(constant, k.t)
	ADDQ(U32(8*periodInPlace), k.t)
	MOVQ(k.t, constant)
	CMPQ(k.t, end)
	JNE(LabelRef("one"))
	XORQ(k.t, k.t)
	for _, m := range k.saved {
		MOVQ(k.t, m)
	}
	finish()
}

func (k *onePermutation) word(x, y int) Mem { return k.at.word(k.state, x, y) }

// round writes a round in place; its constant is in k.t.
func (k *onePermutation) round() {
	k.addParities()
	after := k.at.next()
	for y := range 5 {
		lane := k.loadRow(y)
		for x := range 5 {
			k.chi(after.word(k.state, x, y), x, y, lane)
		}
	}
	k.at = after
}

// addParities works out what theta adds to each column: the parity of the one
// before and that of the one behind rotated by one. The two that are saved stay,
// for the first row, in registers of its lanes.
func (k *onePermutation) addParities() {
	for _, x := range []int{3, 4, 0, 1, 2} {
		to := k.lane[x]
		if x < len(k.theta) {
			to = k.theta[x]
		}
		RORXQ(U8(63), k.parity[(x+1)%5], to)
		XORQ(k.parity[(x+4)%5], to)
		if x >= len(k.theta) {
			MOVQ(to, k.saved[x-len(k.theta)])
		}
	}
}

// loadRow reads the lanes that make up a row, with theta and rho applied, into the
// registers that it returns.
func (k *onePermutation) loadRow(row int) [5]Register {
	lane := k.lane
	for column := range 5 {
		x, y := rowInput(column, row)
		kept := x < len(k.theta)
		switch {
		case kept && row == 4: // its last use
			lane[column] = k.theta[x]
			XORQ(k.word(x, y), lane[column])
		case !kept && row == 0: // as addParities left it
			XORQ(k.word(x, y), lane[column])
		case kept:
			MOVQ(k.word(x, y), lane[column])
			XORQ(k.theta[x], lane[column])
		default:
			MOVQ(k.saved[x-len(k.theta)], lane[column])
			XORQ(k.word(x, y), lane[column])
		}
		if r := rotation(x, y); r != 0 {
			ROLQ(U8(r), lane[column])
		}
	}
	return lane
}

// chi writes a lane and adds it to the parity of its column, which begins with the
// first row.
func (k *onePermutation) chi(to Mem, x, y int, lane [5]Register) {
	out := k.t
	if y == 0 {
		out = k.parity[x]
	}
	ANDNQ(lane[(x+2)%5], lane[(x+1)%5], out)
	XORQ(lane[x], out)
	if x == 0 && y == 0 {
		XORQ(k.t, out) // the round's constant
	}
	MOVQ(out, to)
	if y != 0 {
		XORQ(out, k.parity[x])
	}
}

// absorb writes the addition of a block to a state.
func absorb() {
	routine("absorb", "func(state *uint64, block *byte, words int)",
		"absorb adds so many words, one or more, to one of four interleaved states.")
	transfer("absorb", "block", "state", func(from, to Mem) {
		word := GP64()
		MOVQ(from, word)
		XORQ(word, to)
	}, 8, laneSpacing)
}

// squeeze writes the reading of a block from a state.
func squeeze() {
	routine("squeeze", "func(block *byte, state *uint64, words int)",
		"squeeze reads so many words, one or more, of one of four interleaved states.")
	transfer("squeeze", "state", "block", func(from, to Mem) {
		word := GP64()
		MOVQ(from, word)
		MOVQ(word, to)
	}, laneSpacing, 8)
}

// transfer does each word of a block; from and to are so many bytes apart.
func transfer(name, fromName, toName string, do func(from, to Mem), fromSpacing, toSpacing int) {
	from, to := Load(Param(fromName), GP64()), Load(Param(toName), GP64())
	words := Load(Param("words"), GP64())
	Label(name)
	do(at(from, 0), at(to, 0))
	ADDQ(U32(fromSpacing), from)
	ADDQ(U32(toSpacing), to)
	DECQ(words)
	JNE(LabelRef(name))
	finish()
}
