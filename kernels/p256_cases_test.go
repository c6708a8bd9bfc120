//go:build sim || gputest

package kernels_test

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/binary"
	"math/big"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/internal/bench"
	"github.com/ctrutls/ctrutls/kernels"
)

var p256Order = elliptic.P256().Params().N

// p256Case is a signature's input and what is to come of it.
type p256Case struct {
	nonce, digest *big.Int
	r, s          *big.Int
}

// randomNumber returns a number from 1 to the order less 1.
func randomNumber(rng *rand.Rand) *big.Int {
	for {
		b := make([]byte, kernels.P256NumberSize)
		for i := 0; i < len(b); i += 8 {
			binary.BigEndian.PutUint64(b[i:], rng.Uint64())
		}
		if x := new(big.Int).SetBytes(b); x.Sign() > 0 && x.Cmp(p256Order) < 0 {
			return x
		}
	}
}

// p256SigningKey is a key, and what the kernels need of it.
type p256SigningKey struct {
	d      *big.Int
	public *ecdsa.PublicKey
	table  []byte
}

func newP256Key(t *testing.T, d *big.Int) *p256SigningKey {
	t.Helper()
	encoded := d.FillBytes(make([]byte, kernels.P256NumberSize))
	private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), encoded)
	try(t, err)
	public, err := private.PublicKey.Bytes()
	try(t, err)
	table, err := kernels.P256Key(encoded, public)
	try(t, err)
	return &p256SigningKey{d, &private.PublicKey, table}
}

// expect computes a case's signature, and has crypto/ecdsa verify it.
func (key *p256SigningKey) expect(t *testing.T, c *p256Case) {
	public, err := ecdh.P256().NewPrivateKey(c.nonce.FillBytes(make([]byte, kernels.P256NumberSize)))
	if err != nil {
		t.Error(err)
		return
	}
	c.r = new(big.Int).SetBytes(public.PublicKey().Bytes()[1 : 1+kernels.P256NumberSize])
	c.r.Mod(c.r, p256Order)
	c.s = new(big.Int).Mul(c.r, key.d)
	c.s.Add(c.s, c.digest)
	c.s.Mul(c.s, new(big.Int).ModInverse(c.nonce, p256Order))
	c.s.Mod(c.s, p256Order)
	if digest := c.digest.FillBytes(make([]byte, kernels.P256NumberSize)); !ecdsa.Verify(key.public, digest, c.r, c.s) {
		t.Errorf("crypto/ecdsa does not accept the signature of %x with nonce %x", digest, c.nonce)
	}
}

func (key *p256SigningKey) expectAll(t *testing.T, cases []p256Case) {
	t.Helper()
	var wg sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				key.expect(t, &cases[i])
			}
		})
	}
	for i := range cases {
		next <- i
	}
	close(next)
	wg.Wait()
}

func randomP256(rng *rand.Rand, n int) []p256Case {
	cases := make([]p256Case, n)
	for i := range cases {
		cases[i] = p256Case{nonce: randomNumber(rng), digest: randomNumber(rng)}
	}
	return cases
}

// edgesP256 makes cases with extreme digests, among them those that are 0 modulo the order; with small and large nonces; and
// with the nonces for which an incomplete addition of a comb's parts would meet equal points.
func edgesP256(rng *rand.Rand) []p256Case {
	one, n := big.NewInt(1), p256Order
	power := func(e uint) *big.Int { return new(big.Int).Lsh(one, e) }
	var nonces []*big.Int
	for i := range int64(8) {
		nonces = append(nonces, big.NewInt(i+1))
	}
	for _, e := range []uint{6, 32, 63, 128, 251, 252, 255} {
		nonces = append(nonces, power(e), new(big.Int).Sub(power(e), one))
	}
	nonces = append(nonces, new(big.Int).Mod(power(260), n))    // twice the highest digit
	for _, e := range []uint{35, 70, 105, 140, 175, 210, 238} { // where parts of the comb meet: n - 2 (n mod 2^e)
		x := new(big.Int).Mod(n, power(e))
		nonces = append(nonces, x.Sub(n, x.Add(x, x)))
	}
	for _, k := range nonces {
		nonces = append(nonces, new(big.Int).Sub(n, k))
	}
	digests := []*big.Int{big.NewInt(0), one, n, new(big.Int).Sub(n, one), new(big.Int).Add(n, one), new(big.Int).Sub(power(256), one)}
	cases := randomP256(rng, len(nonces)+len(digests))
	for i, k := range nonces {
		cases[i].nonce = k
	}
	for i, z := range digests {
		cases[len(nonces)+i].digest = z
	}
	return cases
}

// p256Run is a batch's memory on the card.
type p256Run struct {
	card    *bench.Card
	stream  driver.Stream
	plan    kernels.P256Plan
	buffers bench.Buffers
}

func newP256Run(t *testing.T, card *bench.Card, stream driver.Stream, shape kernels.P256Shape, key *p256SigningKey, n int) *p256Run {
	t.Helper()
	plan, err := kernels.PlanP256(n, card.Device(), shape)
	try(t, err)
	r := &p256Run{card: card, stream: stream, plan: plan}
	for buffer, size := range map[kernels.Buffer]int{
		kernels.Input: plan.InputSize, kernels.Output: plan.OutputSize, kernels.Status: plan.StatusSize, kernels.Scratch: plan.ScratchSize,
		kernels.Table: kernels.P256KeySize,
	} {
		r.buffers[buffer], err = card.API.MemAlloc(size)
		try(t, err)
		try(t, card.API.MemsetAsync(r.buffers[buffer], 0xa5, size, stream))
	}
	try(t, card.API.CopyToDevice(r.buffers[kernels.Table], key.table, stream))
	return r
}

func (r *p256Run) free(t *testing.T) {
	t.Helper()
	for _, p := range r.buffers {
		if p != 0 {
			try(t, r.card.API.MemFree(p))
		}
	}
}

func (r *p256Run) fill(t *testing.T, cases []p256Case) {
	t.Helper()
	var in []byte
	for _, c := range cases {
		in = append(in, c.nonce.FillBytes(make([]byte, kernels.P256NumberSize))...)
		in = append(in, c.digest.FillBytes(make([]byte, kernels.P256NumberSize))...)
	}
	try(t, r.card.API.CopyToDevice(r.buffers[kernels.Input], in, r.stream))
}

// launch puts launches of the batch into the stream.
func (r *p256Run) launch(launches ...kernels.Launch) error {
	return r.card.Run(&kernels.Plan{Launches: launches}, &r.buffers, r.stream)
}

func (r *p256Run) download(t *testing.T, buffer kernels.Buffer, size int) []byte {
	t.Helper()
	b := make([]byte, size)
	try(t, r.card.API.CopyToHost(b, r.buffers[buffer], r.stream))
	try(t, r.card.API.StreamSynchronize(r.stream))
	return b
}

// checkRows compares the results with what is expected, and the scratch memory with zero.
func (r *p256Run) checkRows(t *testing.T, cases []p256Case) {
	t.Helper()
	output, status := r.download(t, kernels.Output, r.plan.OutputSize), r.download(t, kernels.Status, r.plan.StatusSize)
	wrong := 0
	for i, c := range cases {
		want := c.s.FillBytes(make([]byte, kernels.P256NumberSize))
		want = append(c.r.FillBytes(make([]byte, kernels.P256NumberSize)), want...)
		got := output[i*kernels.P256SignatureSize : (i+1)*kernels.P256SignatureSize]
		if s := binary.LittleEndian.Uint32(status[4*i:]); s != kernels.P256Signed || !bytes.Equal(got, want) {
			t.Errorf("batch of %d, shape %s: operation %d (nonce %x, digest %x) gives\n%x with status %d, want\n%x", r.plan.Batch, r.plan.Shape, i, c.nonce, c.digest, got, s, want)
			if wrong++; wrong > 3 {
				t.Fatal("and so on")
			}
		}
	}
	if scratch := r.download(t, kernels.Scratch, r.plan.ScratchSize); !bytes.Equal(scratch, make([]byte, len(scratch))) {
		t.Errorf("batch of %d, shape %s: the scratch memory is not wiped", r.plan.Batch, r.plan.Shape)
	}
}

// checkP256 signs a batch and compares it with math/big and crypto/ecdsa.
func checkP256(t *testing.T, card *bench.Card, stream driver.Stream, shape kernels.P256Shape, key *p256SigningKey, cases []p256Case) {
	t.Helper()
	key.expectAll(t, cases)
	r := newP256Run(t, card, stream, shape, key, len(cases))
	defer r.free(t)
	r.fill(t, cases)
	try(t, r.launch(r.plan.Launches[:]...))
	r.checkRows(t, cases)
}

// checkP256Faults spoils signatures before they are checked: none may leave.
func checkP256Faults(t *testing.T, card *bench.Card, stream driver.Stream, shape kernels.P256Shape, key *p256SigningKey, rng *rand.Rand, n int) {
	t.Helper()
	cases := randomP256(rng, n)
	for i := range cases {
		if i%5 == 1 {
			cases[i].digest = big.NewInt(0) // so that the base point's factor is zero
		}
	}
	r := newP256Run(t, card, stream, shape, key, n)
	defer r.free(t)
	r.fill(t, cases)
	try(t, r.launch(r.plan.Launches[0]))
	scratch := r.download(t, kernels.Scratch, r.plan.ScratchSize)
	want := make([]uint32, n)
	for i := range cases {
		row := scratch[i*kernels.P256SignatureSize : (i+1)*kernels.P256SignatureSize]
		want[i] = kernels.P256Wrong
		switch i % 7 {
		case 0:
			want[i] = kernels.P256Signed
		case 1:
			clear(row[:kernels.P256NumberSize])
			want[i] = kernels.P256AnotherNonce
		case 2:
			clear(row[kernels.P256NumberSize:])
			want[i] = kernels.P256AnotherNonce
		default:
			row[rng.IntN(len(row))] ^= 1 << rng.IntN(8)
		}
	}
	try(t, card.API.CopyToDevice(r.buffers[kernels.Scratch], scratch, stream))
	try(t, r.launch(r.plan.Launches[1]))
	output, status := r.download(t, kernels.Output, r.plan.OutputSize), r.download(t, kernels.Status, r.plan.StatusSize)
	for i := range cases {
		row := make([]byte, kernels.P256SignatureSize)
		if want[i] == kernels.P256Signed {
			copy(row, scratch[i*len(row):])
		}
		got := output[i*len(row) : (i+1)*len(row)]
		if s := binary.LittleEndian.Uint32(status[4*i:]); s != want[i] || !bytes.Equal(got, row) {
			t.Errorf("shape %s: operation %d has status %d and output %x, want %d and %x", shape, i, s, got, want[i], row)
		}
	}
}

// checkP256BadNonces signs with nonces that are no good, beside good ones: it says so, and spoils nothing else.
func checkP256BadNonces(t *testing.T, card *bench.Card, stream driver.Stream, shape kernels.P256Shape, key *p256SigningKey, rng *rand.Rand) {
	t.Helper()
	cases := randomP256(rng, 70)
	key.expectAll(t, cases)
	bad := map[int]*big.Int{0: new(big.Int), 33: p256Order, 64: new(big.Int), 69: p256Order}
	for i, k := range bad {
		cases[i].nonce = k
	}
	r := newP256Run(t, card, stream, shape, key, len(cases))
	defer r.free(t)
	r.fill(t, cases)
	try(t, r.launch(r.plan.Launches[:]...))
	output, status := r.download(t, kernels.Output, r.plan.OutputSize), r.download(t, kernels.Status, r.plan.StatusSize)
	for i, c := range cases {
		want, row := uint32(kernels.P256Signed), make([]byte, kernels.P256SignatureSize)
		if bad[i] != nil {
			want = kernels.P256AnotherNonce
		} else {
			c.r.FillBytes(row[:kernels.P256NumberSize])
			c.s.FillBytes(row[kernels.P256NumberSize:])
		}
		got := output[i*len(row) : (i+1)*len(row)]
		if s := binary.LittleEndian.Uint32(status[4*i:]); s != want || !bytes.Equal(got, row) {
			t.Errorf("shape %s: operation %d has status %d and output %x, want %d and %x", shape, i, s, got, want, row)
		}
	}
}
