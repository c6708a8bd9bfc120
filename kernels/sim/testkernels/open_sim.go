//go:build sim

package testkernels

import (
	"testing"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

// Open opens the simulator with the test kernels, put back to its first state.
func Open(t testing.TB) (driver.API, *simctl.Sim) {
	t.Helper()
	sim, path, err := simctl.Fresh(simctl.TestLibrary())
	if err != nil {
		t.Fatal(err)
	}
	api, err := driver.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return api, sim
}
