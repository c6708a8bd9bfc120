//go:build amd64 && !noasm

package vec

import "unsafe"

// Division is the state of division steps on polynomials of degree n. It holds
// secrets.
type Division struct {
	F, G, V, R  []int16 // n+1 coefficients or more
	buffer      []int16 // all of them
	table       table
	steps, size int
	wide        bool
}

// NewDivision returns a state for the ring.
func (r *Ring) NewDivision() *Division {
	const group = 2 * lanes // words that divide treats at once
	d := &Division{steps: 2*r.n - 1, size: roundUp(r.n+1, group), wide: r.wide}
	long := roundUp(d.steps, group) + group
	// G and V begin a page each, so that none of their vectors straddles two if
	// they fit into it. Those of F and R are aligned.
	second := roundUp(long+2*d.size, page)
	d.buffer = pageWords(second + long)
	d.G, d.V = d.buffer[:long], d.buffer[second:]
	d.F, d.R = d.buffer[long:][:d.size], d.buffer[long+d.size:][:d.size]
	d.table.full(r.q)
	q := uint64(r.q)
	for _, x := range []uint64{q, (1<<28 + q/2) / q, (1<<43 + q/2) / q} {
		for i := range 4 {
			d.table = append(d.table, int16(x>>(16*i)))
		}
	}
	return d
}

const page = 4096 / 2 // words

// pageWords returns n words from the start of a page on.
func pageWords(n int) []int16 {
	buffer := make([]int16, n+page)
	skip := -uintptr(unsafe.Pointer(&buffer[0])) % (2 * page) / 2
	return buffer[skip:][:n:n]
}

// roundUp returns the least multiple of unit from n on.
func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// Run does 2n-1 division steps on F and G, whose words are at most q in absolute
// value, with delta = 1; V and R are 0 and 1 before. All words are at most
// q/(1 - q/2^15) afterwards. It takes less time the smaller gap, an even number,
// is, and reports whether delta was within it in absolute value all the time, as
// with 2n it is; otherwise the result is wrong.
func (d *Division) Run(gap int) bool {
	run := divide
	if d.wide {
		run = divideAVX512
	}
	return run(&d.F[0], &d.G[0], &d.V[0], &d.R[0], &d.table[0], d.steps, d.size, gap) >= 0
}

// Wipe zeroes the state.
func (d *Division) Wipe() { clear(d.buffer) }
