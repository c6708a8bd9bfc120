package kem

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// BenchmarkSHA256AfterKEM prints how long the hash of a handshake's transcript takes after each operation, as a multiple of what it takes
// without: vector code that leaves the upper halves of registers in use makes Go's SHA-256 many times slower on some processors.
func BenchmarkSHA256AfterKEM(b *testing.B) {
	transcript := make([]byte, 1200)
	least := func(before func() error) time.Duration {
		t := time.Hour
		for range 300 {
			must(b, before())
			start := time.Now()
			sha256.Sum256(transcript)
			t = min(t, time.Since(start))
		}
		return t
	}
	plain := least(func() error { return nil })
	// For contrast: no VZEROUPPER, which some processors mind and some do not.
	all, err := MLKEM768()
	must(b, err)
	all = all[:1]
	for _, level := range ctruprime.Levels() {
		all = append(all, of(b, ctruprime.Scheme761(), level)...)
	}
	for _, o := range all {
		fmt.Printf("%-52s %5.2f\n", o.Subject().Name, float64(least(o.Call))/float64(plain))
	}
}
