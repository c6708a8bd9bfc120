//go:build amd64 && !noasm

package vec

import (
	"fmt"
	"testing"
	"time"
)

// best returns the least time in nanoseconds of one call in many short runs of
// calls: on a shared machine only the undisturbed ones say something.
func best(f func()) float64 {
	const calls, runs = 16, 4000
	least := time.Hour
	for range runs {
		start := time.Now()
		for range calls {
			f()
		}
		least = min(least, time.Since(start))
	}
	return float64(least.Nanoseconds()) / calls
}

func BenchmarkBest(b *testing.B) {
	for _, c := range rings[1:] {
		r := c.ring
		x := random(c.n, r.Length(), c.q/2)
		s := make([]Spectrum, 2)
		for i := range s {
			s[i] = make(Spectrum, 2*r.Words())
		}
		key := make(Spectrum, 2*r.Words())
		fmt.Printf("n=%d forward %.0f ns", c.n, best(func() { r.Forward(0, s[0], x) }))
		fmt.Println()
		fmt.Printf("n=%d forwardKey %.0f ns", c.n, best(func() { r.ForwardKey(0, key, x) }))
		fmt.Println()
		fmt.Printf("n=%d multiply %.0f ns", c.n, best(func() { r.Multiply(0, s[0], s[0], key) }))
		fmt.Println()
		if c.n == 761 {
			fmt.Printf("n=%d pointwise %.0f ns", c.n, best(func() { pointwise3(&s[0][0], &s[0][0], &key[0], &r.transforms[0].pointwise[0]) }))
			fmt.Println()
			fmt.Printf("n=%d inverse %.0f ns", c.n, best(func() { inverse3(&s[0][0], &r.transforms[0].inverse[0]) }))
			fmt.Println()
		}
		fmt.Printf("n=%d fold %.0f ns", c.n, best(func() { r.FoldQ(x, s[0], s[1]) }))
		fmt.Println()
	}
	var st [100]uint64
	rc := roundConstants
	fmt.Printf("keccak %.0f ns", best(func() { permuteAVX512(&st, &rc) }))
	fmt.Println()
}
