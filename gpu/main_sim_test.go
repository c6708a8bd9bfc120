//go:build sim

package gpu

import (
	"bytes"
	"crypto/ecdh"
	"flag"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/kernels"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

var seed = flag.Uint64("gpu.seed", rand.Uint64(), "what the random inputs, and the simulator's order of threads, depend on")

func TestMain(m *testing.M) {
	flag.Parse()
	// What the kernels do with memory is checked by their own tests; here it would only take time.
	os.Setenv("CTRUTLS_SIM_CHECKS", "global")
	goleak.VerifyTestMain(m)
}

// never is a bound that no test reaches.
const never = time.Hour

// simulated returns the simulator, as it is when loaded, and a configuration for a small engine on it. When the test ends, nothing must be
// left on any device.
func simulated(t *testing.T) (*simctl.Sim, Config) {
	t.Helper()
	sim, path, err := simctl.Fresh(simctl.Library())
	check(t, err)
	sim.SetSeed(*seed)
	t.Cleanup(func() {
		for device := range simctl.MaxDevices {
			if st := sim.Stats(device); st.Leaks() {
				t.Errorf("left behind on device %d: %+v", device, st)
			}
		}
		if t.Failed() {
			t.Logf("gpu.seed %d; the simulator's last fault: %s", *seed, sim.LastFault())
		}
	})
	return sim, Config{Library: path, Sets: []int{653}, Workers: 1, Capacity: 8, MaxWait: never, Hang: never, Backoff: time.Millisecond,
		Logger: slog.New(slog.DiscardHandler)}
}

func open(t *testing.T, cfg Config) *Engine {
	t.Helper()
	e, err := Open(cfg)
	check(t, err)
	t.Cleanup(func() { check(t, e.Close()) })
	return e
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func scheme(n int) *ctruprime.Scheme {
	return map[int]*ctruprime.Scheme{653: ctruprime.Scheme653(), 761: ctruprime.Scheme761(), 1277: ctruprime.Scheme1277()}[n]
}

// A generator makes random operations with the CPU's results.
type generator struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newGenerator() *generator { return &generator{r: rand.New(rand.NewPCG(*seed, 1))} }

func (g *generator) bytes(n int) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.r.Uint32())
	}
	return b
}

// row returns an input of a kind and its output.
func (g *generator) row(t *testing.T, n int, op Operation) (input, output []byte) {
	t.Helper()
	s := scheme(n)
	sk := make([]byte, s.PrivateKeySize())
	keySeed := g.bytes(ctruprime.KeySeedSize)
	check(t, s.GenerateKeyBytes(sk, keySeed))
	if op == KeyGen {
		return keySeed, sk
	}
	encSeed, ct, ss := g.bytes(ctruprime.SeedSize), make([]byte, s.CiphertextSize()), make([]byte, s.SharedKeySize())
	check(t, s.EncapsulateBytes(ct, ss, s.PublicKeyOf(sk), encSeed))
	switch op {
	case Encaps:
		return append(bytes.Clone(s.PublicKeyOf(sk)), encSeed...), append(ct, ss...)
	case Decaps:
		return append(sk, ct...), ss
	}
	private, err := ecdh.X25519().NewPrivateKey(g.bytes(kernels.X25519Size))
	check(t, err)
	peer, err := ecdh.X25519().NewPrivateKey(g.bytes(kernels.X25519Size))
	check(t, err)
	secret, err := private.ECDH(peer.PublicKey())
	check(t, err)
	input = slices.Concat(private.Bytes(), peer.PublicKey().Bytes())
	if op == ServerExchange {
		input = slices.Concat(input, s.PublicKeyOf(sk), encSeed)
		output = slices.Concat(private.PublicKey().Bytes(), secret, ct, ss)
	} else {
		input, output = slices.Concat(input, sk, ct), slices.Concat(secret, ss)
	}
	return padded(input), padded(output)
}

// padded fills a row of an exchange up.
func padded(row []byte) []byte { return append(row, make([]byte, -len(row)&15)...) }
