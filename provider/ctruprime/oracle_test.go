//go:build oracle

package ctruprime

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"os/exec"
	"strconv"
	"testing"
)

var oracleFlag = flag.Int("oracle.n", 8, "compare this `number` of random vectors of each set with the Python model")

// TestOracle compares random vectors with testdata/ctruprime.py, which shares
// neither code nor language with this package. It needs python3.
func TestOracle(t *testing.T) {
	if *oracleFlag < 1 {
		t.Fatal("-oracle.n takes a positive number")
	}
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, ref *reference) {
		for range *oracleFlag {
			seed, z, encSeed := r.bytes(SeedSize), r.bytes(RejectionSize), r.bytes(EncapsulationSeedSize)
			v := oracle(t, ref, seed, z, encSeed)
			if !bytes.Equal(v.Seed, seed) || !bytes.Equal(v.Z, z) || !bytes.Equal(v.EncSeed, encSeed) {
				t.Fatal("the model answers for other seeds")
			}
			v.check(t, s)
			if t.Failed() {
				t.FailNow()
			}
		}
		t.Logf("%d vectors agree", *oracleFlag)
	})
}

// oracle runs the model.
func oracle(t *testing.T, ref *reference, seed, z, encSeed []byte) *vector {
	t.Helper()
	n := strconv.Itoa(ref.n)
	out, err := exec.Command("python3", "testdata/ctruprime.py", "vector", n,
		hex.EncodeToString(seed), hex.EncodeToString(z), hex.EncodeToString(encSeed)).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("testdata/ctruprime.py: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("python3 could not be run, install it: %v", err)
	}
	v := new(vector)
	if err := json.Unmarshal(out, v); err != nil {
		t.Fatalf("testdata/ctruprime.py printed no vector: %v\n%s", err, out)
	}
	return v
}
