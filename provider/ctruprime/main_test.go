package ctruprime

import (
	crand "crypto/rand"
	"encoding/hex"
	"flag"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var seedFlag = flag.String("ctruprime.seed", "", "`hex` seed of the tests' random input, to repeat a failure")

// random is a source of test input that can be repeated.
type random struct{ *rand.ChaCha8 }

// newRandom returns a source with a fresh seed, which it logs, or with that of
// the flag.
func newRandom(t testing.TB) random {
	t.Helper()
	var seed [32]byte
	crand.Read(seed[:])
	if *seedFlag != "" {
		given, err := hex.DecodeString(*seedFlag)
		if err != nil || len(given) != len(seed) {
			t.Fatalf("-ctruprime.seed takes %d hexadecimal digits", 2*len(seed))
		}
		copy(seed[:], given)
	}
	t.Logf("to repeat: -ctruprime.seed=%x", seed)
	return random{rand.NewChaCha8(seed)}
}

// bytes returns n random bytes.
func (r random) bytes(n int) []byte {
	b := make([]byte, n)
	r.Read(b)
	return b
}

// below returns a random number in [0, n).
func (r random) below(n int) int { return int(r.Uint64() % uint64(n)) }

// within returns a random number in [-bound, bound].
func (r random) within(bound int) int { return r.below(2*bound+1) - bound }

// forEachScheme runs a subtest for each parameter set.
func forEachScheme(t *testing.T, f func(t *testing.T, s *Scheme, ref *reference)) {
	for _, s := range allSchemes {
		t.Run(s.Name(), func(t *testing.T) { f(t, s, references[s.Name()]) })
	}
}

// newKey returns a fresh packed private key and its parsed form.
func (r random) newKey(t testing.TB, s *Scheme) (packed []byte, key *PrivateKey) {
	t.Helper()
	packed = make([]byte, s.PrivateKeySize())
	if err := s.GenerateKeyBytes(packed, r.bytes(KeySeedSize)); err != nil {
		t.Fatal(err)
	}
	sk, err := s.UnmarshalBinaryPrivateKey(packed)
	if err != nil {
		t.Fatal(err)
	}
	return packed, sk.(*PrivateKey)
}
