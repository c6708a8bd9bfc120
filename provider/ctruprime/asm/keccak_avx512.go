package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// vector registers by number.
var ymm = []VecPhysical{
	Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15,
	Y16, Y17, Y18, Y19, Y20, Y21, Y22, Y23, Y24, Y25, Y26, Y27, Y28, Y29, Y30, Y31,
}

// Logic functions of three operands.
const (
	chiThree = U8(0xd2) // a ^ (^b & c)
	xorThree = U8(0x96)
)

// permuteAVX512 writes the permutation of four states that stay in 25 registers.
//
// The order of instructions within a round is the fastest of some that were
// tried: row by row, a row's theta and rho before the chi of the row before, so
// that rotations, of which two a cycle can be done, run beside all else. A
// processor renames registers, so that moves between them cost little.
func permuteAVX512() {
	routine("permuteAVX512", "func(state *[100]uint64, rounds *[24]uint64)",
		"permuteAVX512 applies Keccak-f[1600] to four interleaved states: word i of state",
		"j is state[4*i+j]. It needs AVX-512VL.")
	state := Load(Param("state"), GP64())
	rounds := Load(Param("rounds"), GP64())
	a := wideState{lane: ymm[:25], t: ymm[25:]}
	for i, lane := range a.lane {
		VMOVDQU64(at(state, laneSpacing*i), lane)
	}
	count := GP64()
	XORQ(count, count)
	Label("round")
	d, spare := a.addParities()
	a.thetaRho(0, d)
	for y := range 5 {
		if y+1 < 5 {
			a.thetaRho(y+1, d)
		}
		chi(a.row(y), spare)
	}
	a.settle(spare[0])
	VPXORQ_BCST(Mem{Base: rounds, Index: count, Scale: 8}, a.lane[0], a.lane[0])
	INCQ(count)
	CMPQ(count, Imm(keccakRounds))
	JNE(LabelRef("round"))
	for i, lane := range a.lane {
		VMOVDQU64(lane, at(state, laneSpacing*i))
	}
	finish()
}

// wideState is four states and seven registers besides.
type wideState struct{ lane, t []VecPhysical }

// addParities returns what theta adds to each column, the parity of the one
// before and that of the one behind rotated by one, and the registers that are
// left, in an order that leaves each parity alone until its second use.
func (a *wideState) addParities() (d, spare []VecPhysical) {
	c, u, v := a.t[:5], a.t[5], a.t[6]
	for x := range c {
		VPXORQ(a.lane[x], a.lane[x+5], c[x])
		VPTERNLOGQ(xorThree, a.lane[x+10], a.lane[x+15], c[x])
		VPXORQ(a.lane[x+20], c[x], c[x])
	}
	d = []VecPhysical{u, c[3], v, c[0], c[1]}
	for _, x := range []int{0, 2, 4, 1, 3} {
		VPROLQ(U8(1), c[(x+1)%5], d[x])
		VPXORQ(c[(x+4)%5], d[x], d[x])
	}
	return d, []VecPhysical{c[2], c[4]}
}

// row returns the registers of the lanes that make up a row after pi.
func (a *wideState) row(row int) (lanes [5]VecPhysical) {
	for column := range lanes {
		x, y := rowInput(column, row)
		lanes[column] = a.lane[x+5*y]
	}
	return lanes
}

// thetaRho applies theta and rho to the lanes that make up a row.
func (a *wideState) thetaRho(row int, d []VecPhysical) {
	lanes := a.row(row)
	for column, lane := range lanes {
		x, _ := rowInput(column, row)
		VPXORQ(d[x], lane, lane)
	}
	for column, lane := range lanes {
		if r := rotation(rowInput(column, row)); r != 0 {
			VPROLQ(U8(r), lane, lane)
		}
	}
}

// chi combines the lanes of a row.
func chi(r [5]VecPhysical, t []VecPhysical) {
	VMOVDQA64(r[0], t[0])
	VMOVDQA64(r[1], t[1])
	VPTERNLOGQ(chiThree, r[2], r[1], r[0])
	VPTERNLOGQ(chiThree, r[3], r[2], r[1])
	VPTERNLOGQ(chiThree, r[4], r[3], r[2])
	VPTERNLOGQ(chiThree, t[0], r[4], r[3])
	VPTERNLOGQ(chiThree, t[1], t[0], r[4])
}

// settle moves each lane to where pi has it, along the one cycle of 24 lanes.
func (a *wideState) settle(spare VecPhysical) {
	const first = 1 // lane 0 stays
	VMOVDQA64(a.lane[first], spare)
	i := first
	for {
		x, y := rowInput(i%5, i/5)
		from := x + 5*y
		if from == first {
			VMOVDQA64(spare, a.lane[i])
			return
		}
		VMOVDQA64(a.lane[from], a.lane[i])
		i = from
	}
}
