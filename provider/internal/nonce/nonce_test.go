package nonce

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func fromHex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// RFC 6979, appendix A.2.5: P-256 with SHA-256.
func TestVectors(t *testing.T) {
	key := fromHex(t, "c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721")
	for message, want := range map[string]string{
		"sample": "a6e3c57dd01abe90086538398355dd4c3b17aa873382b0f24d6129493d8aad60",
		"test":   "d16b6ae827f17175e040871a1c7ec3500192c4c92677336ec2537acaee0008e0",
	} {
		digest, out := sha256.Sum256([]byte(message)), make([]byte, Size)
		Derive(out, key, digest[:], nil)
		if !bytes.Equal(out, fromHex(t, want)) {
			t.Errorf("%q: %x, want %s", message, out, want)
		}
	}
}

var bigOrder, _ = new(big.Int).SetString("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551", 16)

// reference is the same in other words: crypto/hmac and math/big. It returns the
// first candidates.
func reference(key, digest, extra []byte, candidates int) [][]byte {
	z := new(big.Int).SetBytes(digest)
	seed := append(bytes.Clone(key), z.Mod(z, bigOrder).FillBytes(make([]byte, 32))...)
	seed = append(seed, extra...)
	mac := func(k []byte, parts ...[]byte) []byte {
		h := hmac.New(sha256.New, k)
		for _, p := range parts {
			h.Write(p)
		}
		return h.Sum(nil)
	}
	k, v := make([]byte, 32), bytes.Repeat([]byte{1}, 32)
	for _, step := range []byte{0, 1} {
		k = mac(k, v, []byte{step}, seed)
		v = mac(k, v)
	}
	var all [][]byte
	for range candidates {
		v = mac(k, v)
		all = append(all, v)
		k = mac(k, v, []byte{0})
		v = mac(k, v)
	}
	return all
}

func TestReference(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	edge := func(add int64) []byte { return new(big.Int).Add(bigOrder, big.NewInt(add)).FillBytes(make([]byte, 32)) }
	digests := [][]byte{make([]byte, 32), edge(-1), edge(0), edge(1), bytes.Repeat([]byte{0xff}, 32)}
	for i := range 200 {
		key, digest, extra := random(Size), random(Size), random(rng.IntN(MaxExtra+1))
		if i < len(digests) {
			digest = digests[i]
		}
		want, out := reference(key, digest, extra, 3), make([]byte, Size)
		Derive(out, key, digest, extra)
		if !bytes.Equal(out, want[0]) {
			t.Errorf("key %x, digest %x, extra %x: %x, want %x", key, digest, extra, out, want[0])
		}
		var g generator
		g.seed(key, digest, extra)
		for j, candidate := range want {
			if g.next(); !bytes.Equal(g.v[:], candidate) {
				t.Errorf("candidate %d: %x, want %x", j, g.v, candidate)
			}
			g.reject()
		}
		if g.wipe(); g != (generator{}) {
			t.Error("the generator is not wiped")
		}
	}
}

func TestInRange(t *testing.T) {
	n := func(add int64) *big.Int { return new(big.Int).Add(bigOrder, big.NewInt(add)) }
	for _, c := range []struct {
		number *big.Int
		want   bool
	}{
		{big.NewInt(0), false}, {big.NewInt(1), true}, {new(big.Int).Lsh(big.NewInt(1), 64), true}, {new(big.Int).Lsh(big.NewInt(1), 255), true},
		{n(-1), true}, {n(0), false}, {n(1), false}, {new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1)), false},
	} {
		b := c.number.FillBytes(make([]byte, Size))
		if got := inRange(b); got != c.want {
			t.Errorf("%x: %v, want %v", b, got, c.want)
		}
		reduced := make([]byte, Size)
		reduce(reduced, b)
		if want := new(big.Int).Mod(c.number, bigOrder); new(big.Int).SetBytes(reduced).Cmp(want) != 0 {
			t.Errorf("%x reduced: %x, want %x", b, reduced, want)
		}
	}
}

// Every part of the input counts.
func TestInputs(t *testing.T) {
	inputs := [][]byte{bytes.Repeat([]byte{1}, Size), bytes.Repeat([]byte{2}, Size), bytes.Repeat([]byte{3}, MaxExtra)}
	seen := map[string]bool{}
	derive := func() {
		out := make([]byte, Size)
		Derive(out, inputs[0], inputs[1], inputs[2])
		if seen[string(out)] {
			t.Errorf("a nonce twice: %x", out)
		}
		seen[string(out)] = true
	}
	derive()
	for _, input := range inputs {
		for _, i := range []int{0, 13, len(input) - 1} {
			input[i] ^= 0x40
			derive()
			input[i] ^= 0x40
		}
	}
}

func TestSizes(t *testing.T) {
	for name, sizes := range map[string][4]int{
		"31, 32, 32 and 0": {31, 32, 32, 0}, "32, 33, 32 and 0": {32, 33, 32, 0}, "32, 32, 48 and 0": {32, 32, 48, 0}, "32, 32, 32 and 33": {32, 32, 32, 33},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if text, ok := recover().(string); !ok || !strings.HasPrefix(text, "nonce: sizes of "+name) {
					t.Errorf("panic: %q", text)
				}
			}()
			Derive(make([]byte, sizes[0]), make([]byte, sizes[1]), make([]byte, sizes[2]), make([]byte, sizes[3]))
		})
	}
}

// Nonces are made for every signature, in its caller's goroutine.
func TestAllocations(t *testing.T) {
	out, key, digest, extra := make([]byte, Size), make([]byte, Size), make([]byte, Size), make([]byte, MaxExtra)
	if n := testing.AllocsPerRun(100, func() { Derive(out, key, digest, extra) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDerive(b *testing.B) {
	out, key, digest, extra := make([]byte, Size), make([]byte, Size), make([]byte, Size), make([]byte, MaxExtra)
	for b.Loop() {
		Derive(out, key, digest, extra)
	}
}
