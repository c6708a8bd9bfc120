//go:build gputest && !sim

package testkernels

import (
	"testing"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

// Open opens the machine's own driver.
func Open(t testing.TB) (driver.API, *simctl.Sim) {
	t.Helper()
	api, err := driver.Open("")
	if err != nil {
		t.Fatal(err)
	}
	return api, nil
}
