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

// chiThree is the logic function a ^ (^b & c).
const chiThree = U8(0xd2)

// keccak writes the permutation of four states at once. The state stays in 25
// registers; a rotation and chi's logic function are one instruction each.
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
	thetaRho(a, t)
	moved := pi(a)
	chi(moved, t)
	settle(a, moved, t[0])
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

// The order of instructions within a round is the fastest of some that were
// tried. A processor renames registers, so that moves between them cost little.

// thetaRho adds to each column the parities of its neighbours, of the one before
// and of the one behind rotated by one, and rotates its lanes.
func thetaRho(a, t []VecPhysical) {
	c := t[:5]
	for x := range c {
		u := t[5+x%2]
		VPXORQ(a[x], a[x+5], c[x])
		VPXORQ(a[x+10], a[x+15], u)
		VPXORQ(a[x+20], c[x], c[x])
		VPXORQ(u, c[x], c[x])
	}
	// d = c[x-1] ^ rotated c[x+1], in an order that leaves each parity alone
	// until its second use.
	d := []VecPhysical{t[5], c[1], t[6], c[4], c[0]}
	order := []int{0, 2, 1, 3, 4}
	for _, x := range order {
		VPROLQ(U8(1), c[(x+1)%5], d[x])
		VPXORQ(c[(x+4)%5], d[x], d[x])
	}
	for _, x := range order {
		for y := range 5 {
			VPXORQ(d[x], a[x+5*y], a[x+5*y])
		}
		for y := range 5 {
			if r := rotation(x, y); r != 0 {
				VPROLQ(U8(r), a[x+5*y], a[x+5*y])
			}
		}
	}
}

// rotation is the number of bits that lane (x, y) is rotated by.
func rotation(x, y int) int {
	u, v := 1, 0
	for t := range 24 {
		if u == x && v == y {
			return (t + 1) * (t + 2) / 2 % 64
		}
		u, v = v, (2*u+3*v)%5
	}
	return 0
}

// pi returns the lanes in their new order: lane (x, y) becomes (y, 2x+3y).
func pi(a []VecPhysical) []VecPhysical {
	moved := make([]VecPhysical, len(a))
	for x := range 5 {
		for y := range 5 {
			moved[y+5*((2*x+3*y)%5)] = a[x+5*y]
		}
	}
	return moved
}

// settle moves each lane back to its register, along the one cycle of 24 lanes.
func settle(a, moved []VecPhysical, spare VecPhysical) {
	index := map[Register]int{}
	for i, r := range a {
		index[r] = i
	}
	const first = 1 // lane 0 stays
	VMOVDQA64(a[first], spare)
	i := first
	for {
		from := index[moved[i]]
		if from == first {
			VMOVDQA64(spare, a[i])
			return
		}
		VMOVDQA64(a[from], a[i])
		i = from
	}
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
