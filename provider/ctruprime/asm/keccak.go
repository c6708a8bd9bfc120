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

const (
	xorThree = U8(0x96) // a ^ b ^ c
	chiThree = U8(0xd2) // a ^ (^b & c)
)

// keccak writes the permutation of four states at once. The state stays in 25
// registers; a rotation and a three-operand logic function are one
// instruction each.
func keccak() {
	routine("permuteAVX512", "func(state *[100]uint64, rounds *[24]uint64)",
		"permuteAVX512 applies Keccak-f[1600] to four interleaved states: word i of state",
		"j is state[4*i+j]. It needs AVX-512VL.")
	state := Load(Param("state"), GP64())
	rounds := Load(Param("rounds"), GP64())
	a, t := ymm[:25], ymm[25:]
	for i := range a {
		VMOVDQU64(Mem{Base: state, Disp: 32 * i}, a[i])
	}
	count := GP64()
	XORQ(count, count)
	Label("round")
	theta(a, t)
	rhoPi(a, t[0])
	chi(a, t)
	VPBROADCASTQ(Mem{Base: rounds, Index: count, Scale: 8}, t[0])
	VPXORQ(t[0], a[0], a[0])
	INCQ(count)
	CMPQ(count, Imm(24))
	JNE(LabelRef("round"))
	for i := range a {
		VMOVDQU64(a[i], Mem{Base: state, Disp: 32 * i})
	}
	finish()
	clearUpper()
}

// clearUpper writes a VZEROUPPER to follow code of others.
func clearUpper() {
	routine("clearUpper", "func()", "clearUpper ends the use of the upper halves of vector registers.")
	finish()
}

// theta adds to each column the parities of its neighbours: of the one before,
// and of the one behind rotated by one.
func theta(a, t []VecPhysical) {
	c := t[:5]
	for x := range c {
		VMOVDQA64(a[x], c[x])
		VPTERNLOGQ(xorThree, a[x+5], a[x+10], c[x])
	}
	for x := range c {
		VPTERNLOGQ(xorThree, a[x+15], a[x+20], c[x])
	}
	for x := range c {
		rotated := t[5+x%2]
		VPROLQ(U8(1), c[(x+1)%5], rotated)
		for y := range 5 {
			VPTERNLOGQ(xorThree, c[(x+4)%5], rotated, a[x+5*y])
		}
	}
}

// rhoPi rotates each lane and moves it, along the one cycle of 24 lanes.
func rhoPi(a []VecPhysical, spare VecPhysical) {
	// Lane (x, y) goes to (y, 2x+3y); offset is its rotation.
	type move struct{ from, to, offset int }
	var moves []move
	x, y := 1, 0
	for t := range 24 {
		nx, ny := y, (2*x+3*y)%5
		moves = append(moves, move{x + 5*y, nx + 5*ny, (t + 1) * (t + 2) / 2 % 64})
		x, y = nx, ny
	}
	// Backwards, so that a lane is overwritten after it has moved.
	last := moves[23]
	VPROLQ(U8(last.offset), a[last.from], spare)
	for i := 22; i >= 0; i-- {
		VPROLQ(U8(moves[i].offset), a[moves[i].from], a[moves[i].to])
	}
	VMOVDQA64(spare, a[last.to])
}

// chi combines the lanes of each row.
func chi(a, t []VecPhysical) {
	for y := range 5 {
		r := a[5*y : 5*y+5]
		t0, t1 := t[2*(y%3)], t[2*(y%3)+1]
		VMOVDQA64(r[0], t0)
		VMOVDQA64(r[1], t1)
		VPTERNLOGQ(chiThree, r[2], r[1], r[0])
		VPTERNLOGQ(chiThree, r[3], r[2], r[1])
		VPTERNLOGQ(chiThree, r[4], r[3], r[2])
		VPTERNLOGQ(chiThree, t0, r[4], r[3])
		VPTERNLOGQ(chiThree, t1, t0, r[4])
	}
}
