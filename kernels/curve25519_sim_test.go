//go:build sim

package kernels_test

import (
	"fmt"
	"testing"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/internal/bench"
	"github.com/ctrutls/ctrutls/kernels"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

// strictSimulator opens the simulated card with every check on: the curves' kernels load nothing that they do not use.
func strictSimulator(t *testing.T) (*bench.Card, driver.Stream) {
	t.Helper()
	card, stream, sim := simulator(t)
	sim.SetChecks(simctl.Checks{Races: true, UninitialisedGlobal: true, UninitialisedShared: true})
	return card, stream
}

// Every shape and operation gives what crypto/ecdh gives, for odd batches, in a random order of threads.
func TestX25519(t *testing.T) {
	for _, shape := range kernels.X25519Shapes() {
		for _, op := range kernels.X25519Operations() {
			t.Run(fmt.Sprintf("%s/%s", op, shape), func(t *testing.T) {
				card, stream := strictSimulator(t)
				rng := curvesRand(t)
				for _, n := range []int{1, 2, 31, 33, 131} {
					checkX25519(t, card, stream, op, shape, randomX25519(rng, n))
				}
			})
		}
	}
}

// Every shape takes the points that implementations get wrong as RFC 7748 says.
func TestX25519Edges(t *testing.T) {
	for _, shape := range kernels.X25519Shapes() {
		t.Run(shape.String(), func(t *testing.T) {
			card, stream := strictSimulator(t)
			checkX25519(t, card, stream, kernels.X25519Pair, shape, edgesX25519(curvesRand(t)))
		})
	}
}

// The vectors of RFC 7748, section 5.2, the iterated one for as long as the simulator is quick enough.
func TestX25519RFC7748(t *testing.T) {
	for _, shape := range kernels.X25519Shapes() {
		t.Run(shape.String(), func(t *testing.T) {
			card, stream := strictSimulator(t)
			checkX25519Vectors(t, card, stream, shape, 1)
		})
	}
}
