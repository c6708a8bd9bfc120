//go:build sim

package kernels_test

import (
	"fmt"
	"testing"

	"github.com/ctrutls/ctrutls/kernels"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

// Both halves of an exchange give what the CPU gives, in rows that they share, for every set and in every shape.
func TestExchanges(t *testing.T) {
	for _, n := range []int{653, 761, 1277} {
		set, err := kernels.NewSet(n)
		check(t, err)
		for _, x := range kernels.Exchanges() {
			for _, o := range []kernels.ExchangeOptions{
				{},
				{Shape: kernels.One, X25519: kernels.X25519Warp},
				{Shape: kernels.SplitWarp, X25519: kernels.X25519Lanes4},
				{Shape: kernels.Split, X25519: kernels.X25519Thread},
			} {
				t.Run(fmt.Sprintf("%d/%s/%s/%s", n, x, o.Shape, o.X25519), func(t *testing.T) {
					card, stream, sim := simulator(t)
					sim.SetChecks(simctl.Checks{Races: true, UninitialisedGlobal: true})
					rng := curvesRand(t)
					for i, batch := range []int{1, 2, 19} {
						cases := randomX25519(rng, batch)
						if edges := edgesX25519(rng); batch > 1 {
							cases[1] = edges[rng.IntN(len(edges))]
						}
						checkExchange(t, card, stream, set, x, cases, *seed+uint64(i), o)
					}
				})
			}
		}
	}
}
