//go:build sim

package kernels_test

import (
	"testing"

	"github.com/ctrutls/ctrutls/kernels"
)

// Every shape makes the signatures that the standard defines, for odd batches, in a random order of threads.
func TestP256(t *testing.T) {
	for _, shape := range kernels.P256Shapes() {
		t.Run(shape.String(), func(t *testing.T) {
			card, stream := strictSimulator(t)
			rng := curvesRand(t)
			key := newP256Key(t, randomNumber(rng))
			for _, n := range []int{1, 2, 31, 33, 131} {
				checkP256(t, card, stream, shape, key, randomP256(rng, n))
			}
		})
	}
}

func TestP256Edges(t *testing.T) {
	for _, shape := range kernels.P256Shapes() {
		t.Run(shape.String(), func(t *testing.T) {
			card, stream := strictSimulator(t)
			rng := curvesRand(t)
			key := newP256Key(t, randomNumber(rng))
			checkP256(t, card, stream, shape, key, edgesP256(rng))
			checkP256BadNonces(t, card, stream, shape, key, rng)
		})
	}
}

// No signature leaves that is not right.
func TestP256Faults(t *testing.T) {
	for _, shape := range kernels.P256Shapes() {
		t.Run(shape.String(), func(t *testing.T) {
			card, stream := strictSimulator(t)
			rng := curvesRand(t)
			checkP256Faults(t, card, stream, shape, newP256Key(t, randomNumber(rng)), rng, 45)
		})
	}
}
