//go:build sim

package gpu

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"errors"
	"math/big"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels"
)

var order = elliptic.P256().Params().N

// number returns a number from 1 to the order less 1.
func (g *generator) number() []byte {
	x := new(big.Int).SetBytes(g.bytes(kernels.P256NumberSize + 8))
	x.Mod(x, new(big.Int).Sub(order, big.NewInt(1)))
	return x.Add(x, big.NewInt(1)).FillBytes(make([]byte, kernels.P256NumberSize))
}

// A testKey is a key whose signatures are checked by crypto/ecdsa.
type testKey struct {
	SigningKey
	public *ecdsa.PublicKey
}

func (g *generator) key(t *testing.T) *testKey {
	t.Helper()
	private, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), g.number())
	check(t, err)
	number, err := private.Bytes()
	check(t, err)
	public, err := private.PublicKey.Bytes()
	check(t, err)
	return &testKey{SigningKey{number, public}, &private.PublicKey}
}

func (k *testKey) kind(t *testing.T, e *Engine) *Kind {
	t.Helper()
	kind, err := e.SigningKind(k.SigningKey)
	check(t, err)
	return kind
}

// signs reports whether an output row is a signature of an input row.
func (k *testKey) signs(input, output []byte) bool {
	r, s := new(big.Int).SetBytes(output[:32]), new(big.Int).SetBytes(output[32:])
	return ecdsa.Verify(k.public, input[kernels.P256NumberSize:], r, s)
}

func (g *generator) signature() []byte { return append(g.number(), g.bytes(kernels.P256NumberSize)...) }

// checkSigned waits for a row and gives it back.
func checkSigned(t *testing.T, k *testKey, ticket Ticket, input []byte) {
	t.Helper()
	check(t, ticket.Wait(t.Context()))
	if status := ticket.Status(0); status != kernels.P256Signed || !k.signs(input, ticket.Output(0)) {
		t.Errorf("status %d; %x is no signature of %x", status, ticket.Output(0), input)
	}
	ticket.Release()
}

func signing(t *testing.T) Config {
	t.Helper()
	_, cfg := simulated(t)
	cfg.Sign = true
	return cfg
}

// Rows of a key form a batch, those of another key their own, also where the two share a queue, and each is signed by its own key.
func TestSignBatches(t *testing.T) {
	sim, cfg := simulated(t)
	cfg.Sign, cfg.Capacity, cfg.Buffers = true, 16, 8
	e := open(t, cfg)
	g := newGenerator()
	first := g.key(t)
	kinds, keys := []*Kind{first.kind(t, e)}, []*testKey{first}
	for len(kinds) <= signingQueues { // the last shares the first one's queue
		k := *kinds[0]
		k.key = &signingKey{number: kinds[0].key.number + uint64(len(kinds)), bytes: k.key.bytes}
		k.queue = len(e.kinds) - 1 + int(k.key.number%signingQueues)
		kinds, keys = append(kinds, &k), append(keys, first)
	}
	second := g.key(t)
	other := second.kind(t, e)
	kinds[signingQueues].key.bytes, keys[signingQueues] = other.key.bytes, second
	if kinds[0].queue != kinds[signingQueues].queue {
		t.Fatal("two queues")
	}

	kem := kind(t, e, 653, Encaps)
	kemInput, kemWant := g.row(t, 653, Encaps)
	sim.Hold(0, true)
	running := g.signature()
	one := reserve(t, e, kinds[0], running)
	awaitRunning(t, e)
	type row struct {
		key    *testKey
		ticket Ticket
		input  []byte
	}
	var rows []row
	send := func(i int) {
		input := g.signature()
		rows = append(rows, row{keys[i], reserve(t, e, kinds[i], input), input})
	}
	for range 5 {
		send(0)
		send(1)
	}
	for range 3 {
		send(signingQueues) // ends the batch of kinds[0]
	}
	send(0) // and a new one begins
	beside := reserve(t, e, kem, kemInput)
	sim.Hold(0, false)
	checkSigned(t, first, one, running)
	finish(t, beside, kemWant)
	for _, r := range rows {
		checkSigned(t, r.key, r.ticket, r.input)
	}
	runtime.KeepAlive(other)
	if st := e.Stats()[0]; st.Batches != 6 || st.Rows != 16 {
		t.Errorf("%d rows in %d batches, want 16 in 6", st.Rows, st.Batches)
	}
	if l := e.SigningLatency(); l.Mean <= 0 {
		t.Errorf("%+v", l)
	}
}

// A nonce that is none is told, and harms nobody.
func TestSignBadNonce(t *testing.T) {
	e := open(t, signing(t))
	g := newGenerator()
	key := g.key(t)
	kind := key.kind(t, e)
	bad := append(make([]byte, kernels.P256NumberSize), g.bytes(kernels.P256NumberSize)...)
	output, status, err := do(t.Context(), e, kind, bad)
	if err != nil || status != kernels.P256AnotherNonce || !bytes.Equal(output, make([]byte, len(output))) {
		t.Errorf("status %d, %v, output %x", status, err, output)
	}
	input := g.signature()
	checkSigned(t, key, reserve(t, e, kind, input), input)
}

// After a batch neither the device nor pinned memory holds its rows or the private key.
func TestSignWiped(t *testing.T) {
	e := open(t, signing(t))
	g := newGenerator()
	key := g.key(t)
	kind := key.kind(t, e)
	for range 2 {
		input := g.signature()
		checkSigned(t, key, reserve(t, e, kind, input), input)
	}
	awaitIdle(t, e)
	s := e.devices[0].session.Load()
	for _, b := range s.buffers {
		if !bytes.Equal(b.memory, make([]byte, len(b.memory))) {
			t.Error("pinned memory is not wiped")
		}
	}
	w := s.workers[0]
	held := make([]byte, kernels.P256KeySize)
	err, _ := within(enough, func() error {
		memory, scratch := make([]byte, w.size), make([]byte, kernels.P256SignatureSize)
		err := errors.Join(s.api.CtxSetCurrent(s.context), s.api.CopyToHost(memory, w.memory, w.stream), s.api.CopyToHost(scratch, w.scratch, w.stream),
			s.api.CopyToHost(held, w.key, w.stream), s.api.StreamSynchronize(w.stream))
		if !bytes.Equal(memory, make([]byte, len(memory))) || !bytes.Equal(scratch, make([]byte, len(scratch))) {
			t.Error("the device's memory is not wiped")
		}
		return err
	})
	check(t, err)
	if !bytes.Equal(held[:publicKeyPart], kind.key.bytes[:publicKeyPart]) {
		t.Error("the public part is not there") // so that this test looks at the right place
	}
	if !bytes.Equal(held[publicKeyPart:], make([]byte, kernels.P256NumberSize)) {
		t.Error("the private key is still on the device")
	}
}

// Each call of the driver that a batch of signatures makes fails in turn: every row then has a right signature or an excuse.
func TestSignEveryCallFails(t *testing.T) {
	sim, cfg := simulated(t)
	cfg.Sign = true
	e := open(t, cfg)
	g := newGenerator()
	key := g.key(t)
	kind := key.kind(t, e)
	faults := uint64(0)
	for _, call := range sim.Calls() {
		for site := 0; ; site++ {
			sim.ClearFaults(0)
			sim.FailCall(0, call, site, 1, int(driver.ErrInvalidValue), false)
			for range 2 {
				input := g.signature()
				output, status, err := do(t.Context(), e, kind, input)
				if err != nil && !excused(err) || err == nil && (status != 0 || !key.signs(input, output)) {
					t.Errorf("%s, site %d: status %d, %v", call, site, status, err)
				}
			}
			awaitState(t, e, 0, StateOpen)
			now := e.Stats()[0].Faults
			if now == faults {
				break
			}
			faults = now
		}
	}
	sim.ClearFaults(0)
	t.Logf("%d calls failed", faults)
	if faults < 8 { // three copies there, two launches, a copy back, an event and the wait for it
		t.Error("calls of a batch were left out")
	}
}

// What is there for signatures is freed if the device then can't be opened.
func TestSignOpenFails(t *testing.T) {
	sim, cfg := simulated(t)
	cfg.Sign = true
	for _, call := range []string{"cuMemAlloc", "cuModuleLoadData"} {
		for site := 0; ; site++ {
			sim.Reset()
			sim.FailCall(0, call, site, 1, int(driver.ErrOutOfMemory), false)
			e, err := Open(cfg)
			if err == nil {
				check(t, e.Close())
				if site < 2 { // the KEM's and the signatures'
					t.Errorf("%s is called %d times", call, site)
				}
				break
			}
			if st := sim.Stats(0); st.Leaks() {
				t.Errorf("%s, site %d: left %+v", call, site, st)
			}
		}
	}
}

// Many goroutines sign with two keys at once.
func TestSignConcurrently(t *testing.T) {
	cfg := signing(t)
	cfg.Workers, cfg.Buffers = 2, 8
	e := open(t, cfg)
	g := newGenerator()
	var wg sync.WaitGroup
	for range 2 {
		key := g.key(t)
		kind := key.kind(t, e)
		for range 4 {
			wg.Go(func() {
				for range 4 {
					input := g.signature()
					output, status, err := do(context.Background(), e, kind, input)
					if err != nil || status != 0 || !key.signs(input, output) {
						t.Errorf("status %d, %v; %x is no signature of %x", status, err, output, input)
					}
				}
			})
		}
	}
	wg.Wait()
}

// There is a bound on keys; those that are garbage make room and leave no copy.
func TestSigningKeysBound(t *testing.T) {
	e := open(t, signing(t))
	g := newGenerator()
	key := g.key(t)
	kind := key.kind(t, e)
	copied := kind.key.bytes
	e.signing.alive.Store(MaxSigningKeys)
	if _, err := e.SigningKind(key.SigningKey); err != ErrSigningKeys {
		t.Errorf("%v, want ErrSigningKeys", err)
	}
	if !bytes.Equal(copied[publicKeyPart:], key.Private) {
		t.Error("the key is gone too soon")
	}
	runtime.KeepAlive(kind)
	eventually(t, func() bool {
		runtime.GC()
		return e.signing.alive.Load() < MaxSigningKeys
	}, func() string { return "a key that is garbage is kept" })
	if !bytes.Equal(copied[publicKeyPart:], make([]byte, kernels.P256NumberSize)) {
		t.Error("its copy is not wiped")
	}
	key.kind(t, e)
}

func TestSigningRefuses(t *testing.T) {
	cfg := signing(t)
	e := open(t, cfg)
	g := newGenerator()
	key := g.key(t)
	for want, wrong := range map[string]SigningKey{
		"32 bytes, not 31": {key.Private[:31], key.Public},
		"uncompressed":     {key.Private, key.Public[1:]},
	} {
		if _, err := e.SigningKind(wrong); err == nil || !strings.HasPrefix(err.Error(), "gpu: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if n := e.signing.alive.Load(); n != 0 {
		t.Errorf("%d keys", n)
	}
	if _, err := e.Kind(0, Sign); err == nil {
		t.Error("a kind of signatures by no key")
	}
	check(t, e.Close())

	cfg.Sign = false
	e = open(t, cfg)
	if _, err := e.SigningKind(key.SigningKey); !errors.Is(err, ErrConfig) {
		t.Errorf("%v, want ErrConfig", err)
	}
	if l := e.SigningLatency(); l != (Latency{}) {
		t.Errorf("%+v", l)
	}
	cfg.Probes = []Probe{{Operation: Sign, Key: key.SigningKey}}
	if _, err := Open(cfg); !errors.Is(err, ErrConfig) {
		t.Errorf("%v, want ErrConfig", err)
	}
}

// A probe whose signature differs refuses the device.
func TestSigningProbe(t *testing.T) {
	cfg := signing(t)
	g := newGenerator()
	key := g.key(t)
	e := open(t, cfg)
	input := g.signature()
	output, _, err := do(t.Context(), e, key.kind(t, e), input)
	check(t, err)
	check(t, e.Close())
	cfg.Probes = []Probe{{Operation: Sign, Key: key.SigningKey, Input: input, Output: output}}
	check(t, open(t, cfg).Close())
	output[40] ^= 1
	if _, err := Open(cfg); !errors.Is(err, errMismatch) || !strings.Contains(err.Error(), "ECDSA P-256 sign") {
		t.Errorf("%v, want errMismatch", err)
	}
}
