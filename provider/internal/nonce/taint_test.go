//go:build valgrind && linux && amd64

package nonce

import (
	"bytes"
	"crypto/rand"
	"flag"
	"testing"

	"github.com/ctrutls/ctrutls/provider/internal/valgrind"
)

// TestTaint derives candidates from a key and randomness that are marked
// undefined; it is for valgrind, which then reports each branch and each address
// that depends on them (see scripts/taint.sh). -nonce.leak plants one.

var leak = flag.String("nonce.leak", "", "plant a leak: `branch` or address")

func TestTaint(t *testing.T) {
	for range 4 {
		key, digest, extra, want := make([]byte, Size), make([]byte, Size), make([]byte, MaxExtra), make([]byte, Size)
		for _, b := range [][]byte{key, digest, extra} {
			rand.Read(b)
		}
		Derive(want, key, digest, extra)
		valgrind.Secret(key)
		valgrind.Secret(extra)
		var g generator
		g.seed(key, digest, extra)
		g.next()
		plantLeak(g.v[:])
		got := bytes.Clone(g.v[:])
		g.reject() // as if the candidate were no nonce
		g.next()
		g.wipe()
		valgrind.Public(key)
		valgrind.Public(extra)
		valgrind.Public(got)
		if !bytes.Equal(got, want) { // inRange alone tells, and only of a candidate that is not taken
			t.Errorf("%x, want %x", got, want)
		}
	}
}

//go:noinline
func plantLeak(secret []byte) {
	switch *leak {
	case "branch":
		if secret[0]&1 == 1 {
			planted++
		}
	case "address":
		planted += leakTable[secret[0]]
	}
}

var (
	planted   int
	leakTable [256]int
)
