//go:build sim || gputest

package kernels_test

import (
	"bytes"
	"crypto/ecdh"
	"encoding/binary"
	"encoding/hex"
	"flag"
	"math/big"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/internal/bench"
	"github.com/ctrutls/ctrutls/kernels"
)

var curvesSeed = flag.Uint64("curves.seed", rand.Uint64(), "what the curves' random cases depend on")

// curvesRand returns randomness that depends on the seed, which it logs.
func curvesRand(t *testing.T) *rand.Rand {
	t.Helper()
	t.Logf("curves.seed %d", *curvesSeed)
	return rand.New(rand.NewPCG(*curvesSeed, 25519))
}

// try ends the test on an error.
func try(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// x25519Case is an operation's input.
type x25519Case struct {
	private, peer [kernels.X25519Size]byte
}

// randomX25519 makes n random cases; half the peers are on the curve, the others on its twist.
func randomX25519(rng *rand.Rand, n int) []x25519Case {
	cases := make([]x25519Case, n)
	for i := range cases {
		for _, b := range [][]byte{cases[i].private[:], cases[i].peer[:]} {
			for j := 0; j < len(b); j += 8 {
				binary.LittleEndian.PutUint64(b[j:], rng.Uint64())
			}
		}
	}
	return cases
}

// littleEndian encodes 0 <= x < 2^256.
func littleEndian(x *big.Int) (b [kernels.X25519Size]byte) {
	x.FillBytes(b[:])
	slices.Reverse(b[:])
	return b
}

// edgesX25519 makes a case of every encoding that has been decoded wrongly somewhere, with the top bit clear and set: small and
// large coordinates, all that are not canonical, and those of low order; and extreme private keys with a random peer.
func edgesX25519(rng *rand.Rand) []x25519Case {
	p := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 255), big.NewInt(19))
	var peers []*big.Int
	for _, d := range []int64{0, 1, 2, 3, 9, 19} {
		peers = append(peers, big.NewInt(d), new(big.Int).Sub(p, big.NewInt(d)))
	}
	for d := range int64(19) {
		peers = append(peers, new(big.Int).Add(p, big.NewInt(d))) // p to 2^255 - 1
	}
	for _, order8 := range []string{ // little-endian
		"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
		"5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
	} {
		b, _ := hex.DecodeString(order8)
		slices.Reverse(b)
		peers = append(peers, new(big.Int).SetBytes(b))
	}
	for _, bits := range []uint{31, 32, 51, 64, 128, 224, 254} {
		x := new(big.Int).Lsh(big.NewInt(1), bits)
		peers = append(peers, x, new(big.Int).Sub(x, big.NewInt(1)))
	}
	cases := randomX25519(rng, 2*len(peers))
	for i, u := range peers {
		cases[2*i].peer = littleEndian(u)
		cases[2*i+1].peer = littleEndian(u)
		cases[2*i+1].peer[kernels.X25519Size-1] |= 0x80
	}
	for _, fill := range []byte{0x00, 0xff, 0x55, 0xaa} {
		c := randomX25519(rng, 1)[0]
		for i := range c.private {
			c.private[i] = fill
		}
		cases = append(cases, c)
	}
	return cases
}

// x25519Result is what crypto/ecdh makes of a case.
type x25519Result struct {
	public, shared [kernels.X25519Size]byte
	zero           bool // the shared secret is
}

func expectX25519(t *testing.T, cases []x25519Case) []x25519Result {
	t.Helper()
	results := make([]x25519Result, len(cases))
	var wg sync.WaitGroup
	const chunk = 64
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for from := range next {
				for i := from; i < min(from+chunk, len(cases)); i++ {
					private, err := ecdh.X25519().NewPrivateKey(cases[i].private[:])
					if err != nil {
						t.Error(err)
						return
					}
					peer, err := ecdh.X25519().NewPublicKey(cases[i].peer[:])
					if err != nil {
						t.Error(err)
						return
					}
					copy(results[i].public[:], private.PublicKey().Bytes())
					shared, err := private.ECDH(peer) // an error is how it reports zeros
					results[i].zero = err != nil
					copy(results[i].shared[:], shared)
				}
			}
		})
	}
	for from := 0; from < len(cases); from += chunk {
		next <- from
	}
	close(next)
	wg.Wait()
	return results
}

// x25519Run is a batch's memory on the card.
type x25519Run struct {
	card    *bench.Card
	stream  driver.Stream
	plan    kernels.X25519Plan
	buffers bench.Buffers
}

// newX25519Run allocates a batch. What the kernels do not write stays a pattern.
func newX25519Run(t *testing.T, card *bench.Card, stream driver.Stream, op kernels.X25519Operation, shape kernels.X25519Shape, n int) *x25519Run {
	t.Helper()
	plan, err := kernels.PlanX25519(op, n, card.Device(), shape)
	try(t, err)
	r := &x25519Run{card: card, stream: stream, plan: plan}
	for buffer, size := range map[kernels.Buffer]int{kernels.Input: plan.InputSize, kernels.Output: plan.OutputSize, kernels.Status: plan.StatusSize} {
		if size > 0 {
			r.buffers[buffer], err = card.API.MemAlloc(size)
			try(t, err)
			try(t, card.API.MemsetAsync(r.buffers[buffer], 0xa5, size, stream))
		}
	}
	return r
}

func (r *x25519Run) free(t *testing.T) {
	t.Helper()
	for _, p := range r.buffers {
		if p != 0 {
			try(t, r.card.API.MemFree(p))
		}
	}
}

// fill uploads the input rows.
func (r *x25519Run) fill(t *testing.T, cases []x25519Case) {
	t.Helper()
	var in []byte
	for i := range cases {
		in = append(in, cases[i].private[:]...)
		if r.plan.Operation != kernels.X25519Public {
			in = append(in, cases[i].peer[:]...)
		}
	}
	try(t, r.card.API.CopyToDevice(r.buffers[kernels.Input], in, r.stream))
}

// launch puts the batch into the stream.
func (r *x25519Run) launch() error {
	return r.card.Run(&kernels.Plan{Launches: []kernels.Launch{r.plan.Launch}}, &r.buffers, r.stream)
}

// rows downloads the results, after all work in the stream.
func (r *x25519Run) rows(t *testing.T) (output, status []byte) {
	t.Helper()
	output, status = make([]byte, r.plan.OutputSize), make([]byte, r.plan.StatusSize)
	try(t, r.card.API.CopyToHost(output, r.buffers[kernels.Output], r.stream))
	if len(status) > 0 {
		try(t, r.card.API.CopyToHost(status, r.buffers[kernels.Status], r.stream))
	}
	try(t, r.card.API.StreamSynchronize(r.stream))
	return output, status
}

// checkX25519Rows compares a batch's results with those of crypto/ecdh.
func checkX25519Rows(t *testing.T, plan kernels.X25519Plan, cases []x25519Case, want []x25519Result, output, status []byte) {
	t.Helper()
	size, wrong := len(output)/len(cases), 0
	for i, w := range want {
		var row []byte
		if plan.Operation != kernels.X25519Shared {
			row = append(row, w.public[:]...)
		}
		if plan.Operation != kernels.X25519Public {
			row = append(row, w.shared[:]...)
			if got := binary.LittleEndian.Uint32(status[4*i:]); got != map[bool]uint32{true: 1}[w.zero] {
				t.Errorf("%s of %d, shape %s: operation %d (private %x, peer %x) has status %d", plan.Operation, plan.Batch, plan.Shape, i, cases[i].private, cases[i].peer, got)
				wrong++
			}
		}
		if got := output[i*size : (i+1)*size]; !bytes.Equal(got, row) {
			t.Errorf("%s of %d, shape %s: operation %d (private %x, peer %x) gives\n%x, want\n%x", plan.Operation, plan.Batch, plan.Shape, i, cases[i].private, cases[i].peer, got, row)
			wrong++
		}
		if wrong > 3 {
			t.Fatal("and so on")
		}
	}
}

// checkX25519 runs a batch and compares it with crypto/ecdh.
func checkX25519(t *testing.T, card *bench.Card, stream driver.Stream, op kernels.X25519Operation, shape kernels.X25519Shape, cases []x25519Case) {
	t.Helper()
	r := newX25519Run(t, card, stream, op, shape, len(cases))
	defer r.free(t)
	r.fill(t, cases)
	try(t, r.launch())
	output, status := r.rows(t)
	checkX25519Rows(t, r.plan, cases, expectX25519(t, cases), output, status)
}

// checkX25519Vectors holds a shape against the vectors of RFC 7748, section 5.2, with the iterated one carried `iterations` (1 or 1000) far.
func checkX25519Vectors(t *testing.T, card *bench.Card, stream driver.Stream, shape kernels.X25519Shape, iterations int) {
	t.Helper()
	decode := func(s string) (b [kernels.X25519Size]byte) {
		if n, err := hex.Decode(b[:], []byte(s)); err != nil || n != len(b) {
			t.Fatalf("%q: %v", s, err)
		}
		return b
	}
	vectors := []struct{ scalar, u, want string }{
		{
			"a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
			"e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
			"c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
		},
		{
			"4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
			"e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
			"95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
		},
	}
	var cases []x25519Case
	for _, v := range vectors {
		cases = append(cases, x25519Case{decode(v.scalar), decode(v.u)})
	}
	r := newX25519Run(t, card, stream, kernels.X25519Shared, shape, len(cases))
	r.fill(t, cases)
	try(t, r.launch())
	output, _ := r.rows(t)
	r.free(t)
	for i, v := range vectors {
		if want := decode(v.want); !bytes.Equal(output[i*len(want):(i+1)*len(want)], want[:]) {
			t.Errorf("vector %d: %x, want %x", i, output[i*len(want):(i+1)*len(want)], want)
		}
	}

	iterated := map[int]string{
		1:    "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079",
		1000: "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51",
	}
	c := x25519Case{private: [kernels.X25519Size]byte{9}, peer: [kernels.X25519Size]byte{9}}
	r = newX25519Run(t, card, stream, kernels.X25519Shared, shape, 1)
	defer r.free(t)
	for range iterations {
		r.fill(t, []x25519Case{c})
		try(t, r.launch())
		output, _ = r.rows(t)
		c.peer = c.private
		copy(c.private[:], output)
	}
	if want := decode(iterated[iterations]); c.private != want {
		t.Errorf("after %d iterations: %x, want %x", iterations, c.private, want)
	}
}
