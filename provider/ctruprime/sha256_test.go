package ctruprime

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"
)

// BenchmarkSHA256AfterKEM prints how long the hash of a handshake's transcript
// takes after each operation, as a multiple of what it takes without: vector
// code that leaves the upper halves of registers in use makes Go's SHA-256 many
// times slower.
func BenchmarkSHA256AfterKEM(b *testing.B) {
	transcript := make([]byte, 1200)
	least := func(before func()) time.Duration {
		t := time.Hour
		for range 300 {
			before()
			start := time.Now()
			sha256.Sum256(transcript)
			t = min(t, time.Since(start))
		}
		return t
	}
	plain := least(func() {})
	// For contrast: no VZEROUPPER, which some processors mind and some do not.
	circl, _ := mlkemOperations(b)
	fmt.Printf("%-10s %-44s %5.2f\n", "", circl.name, float64(least(circl.f))/float64(plain))
	for name, level := range levels() {
		p := scheme761.parameters
		s := newSchemeFor(p, level)
		for _, o := range schemeOperations(b, s) {
			if o.each == 1 || o.each == maxLanes {
				fmt.Printf("%-10s %-44s %5.2f\n", name, o.name, float64(least(o.f))/float64(plain))
			}
		}
	}
}
