package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// fourPermutation is four states that stay in memory; there are registers for one
// of their rows.
type fourPermutation struct {
	state  Register
	parity []VecPhysical // of the columns; those of the next round from the first row on
	lane   []VecPhysical // of a row
	theta  []VecPhysical // what theta adds to each column
	t      VecPhysical
	turns  map[int]Mem // shuffles that rotate by whole bytes
	at     places
}

func permuteAVX2() {
	turns := map[int]Mem{}
	for _, bits := range []int{8, 56} {
		var shuffle [vectorSize]byte
		for i := range shuffle {
			shuffle[i] = byte(i&^7 | (i-bits/8)&7)
		}
		turns[bits] = constant(shuffle)
	}
	routine("permuteAVX2", "func(state *[100]uint64, rounds *[24]uint64)",
		"permuteAVX2 applies Keccak-f[1600] to four interleaved states: word i of state",
		"j is state[4*i+j]. It needs AVX2.")
	state := Load(Param("state"), GP64())
	rounds := Load(Param("rounds"), GP64())
	k := fourPermutation{
		state:  state,
		parity: ymm[:5],
		lane:   ymm[5:10],
		theta:  ymm[10:15],
		t:      ymm[15],
		turns:  turns,
		at:     firstPlaces(),
	}
	for x, parity := range k.parity {
		VMOVDQU(k.word(x, 0), parity)
		for y := 1; y < 5; y++ {
			VPXOR(k.word(x, y), parity, parity)
		}
	}
	count := GP64()
	XORQ(count, count)
	Label("four")
	for i := range periodInPlace {
		k.round(Mem{Base: rounds, Index: count, Scale: 8, Disp: 8 * i})
	}
	ADDQ(Imm(periodInPlace), count)
	CMPQ(count, Imm(keccakRounds))
	JNE(LabelRef("four"))
	finish()
}

func (k *fourPermutation) word(x, y int) Mem { return k.at.word(k.state, x, y) }

// round writes a round in place.
func (k *fourPermutation) round(constant Mem) {
	for x := range 5 {
		behind := k.parity[(x+1)%5]
		VPADDQ(behind, behind, k.t)
		VPSRLQ(U8(63), behind, k.theta[x])
		VPXOR(k.parity[(x+4)%5], k.t, k.t)
		VPXOR(k.t, k.theta[x], k.theta[x])
	}
	after := k.at.next()
	for y := range 5 {
		for column := range 5 {
			x, yIn := rowInput(column, y)
			VPXOR(k.word(x, yIn), k.theta[x], k.lane[column])
			k.rotate(rotation(x, yIn), k.lane[column])
		}
		for x := range 5 {
			k.chi(after.word(k.state, x, y), x, y, constant)
		}
	}
	k.at = after
}

func (k *fourPermutation) rotate(bits int, x VecPhysical) {
	if bits == 0 {
		return
	}
	if turn, ok := k.turns[bits]; ok {
		VPSHUFB(turn, x, x)
		return
	}
	VPSLLQ(U8(bits), x, k.t)
	VPSRLQ(U8(64-bits), x, x)
	VPOR(k.t, x, x)
}

// chi writes a lane and adds it to the parity of its column, which begins with the
// first row.
func (k *fourPermutation) chi(to Mem, x, y int, constant Mem) {
	out := k.t
	if y == 0 {
		out = k.parity[x]
	}
	VPANDN(k.lane[(x+2)%5], k.lane[(x+1)%5], out)
	VPXOR(k.lane[x], out, out)
	if x == 0 && y == 0 {
		VPBROADCASTQ(constant, k.t)
		VPXOR(k.t, out, out)
	}
	VMOVDQU(out, to)
	if y != 0 {
		VPXOR(out, k.parity[x], k.parity[x])
	}
}
