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
	path, err := simctl.TestLibrary()
	if err != nil {
		t.Fatal(err)
	}
	sim, err := simctl.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	sim.Reset()
	api, err := driver.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return api, sim
}
