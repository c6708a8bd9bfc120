//go:build amd64 && !noasm

package vec

import "unsafe"

// Division is the state of division steps on polynomials of degree n. It holds
// secrets.
type Division struct {
	buffer     []int16
	F, G, V, R []int16 // n+1 coefficients or more
	table      table
	steps      int
}

// NewDivision returns a state for the ring.
func (r *Ring) NewDivision() *Division {
	const group = 4 * lanes // words that divide treats at once
	size := (r.n + 1 + group - 1) / group * group
	d := &Division{buffer: pageWords(4*size + 3*group), steps: 2*r.n - 1}
	rest := d.buffer[group:] // room before G and after V
	for _, p := range []*[]int16{&d.G, &d.F, &d.R, &d.V} {
		*p, rest = rest[:size:size], rest[size:]
	}
	d.table.full(r.q)
	q := uint64(r.q)
	for _, x := range []uint64{q, (1<<28 + q/2) / q, (1<<43 + q/2) / q} {
		for i := range 4 {
			d.table = append(d.table, int16(x>>(16*i)))
		}
	}
	return d
}

// pageWords returns n words that begin 512 bytes after the start of a page. The
// ends of pages then lie in F or R, whose vectors do not straddle them as those
// of G and V may, once a step.
func pageWords(n int) []int16 {
	const page, offset = 4096, 512
	buffer := make([]int16, n+page/2)
	at := uintptr(unsafe.Pointer(&buffer[0]))
	skip := (offset - at%page + page) % page / 2
	return buffer[skip:][:n:n]
}

// Run does 2n-1 division steps on F and G, whose words are at most q in absolute
// value, with delta = 1; V and R are 0 and 1 before. All words are at most
// q/(1 - q/2^15) afterwards.
func (d *Division) Run() {
	divide(&d.F[0], &d.G[0], &d.V[0], &d.R[0], &d.table[0], d.steps, len(d.F))
}

// Wipe zeroes the state.
func (d *Division) Wipe() { clear(d.buffer) }
