package provider

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/asn1"
	"log/slog"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"
)

func p256Key(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// newSigner returns a Signer whose key the devices, if there are any, know already.
func newSigner(t testing.TB, p *Provider, key *ecdsa.PrivateKey) *Signer {
	t.Helper()
	s, err := p.Signer(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.engine.adopt(s.key); err != nil {
		t.Fatal(err)
	}
	return s
}

// signAll has several goroutines sign fresh digests, and checks each signature.
func signAll(t *testing.T, s *Signer, callers, each int) {
	t.Helper()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				digest := random(digestSize)
				sig, err := s.Sign(rand.Reader, digest, crypto.SHA256)
				if err != nil || !ecdsa.VerifyASN1(s.Public().(*ecdsa.PublicKey), digest, sig) {
					t.Errorf("digest %x: signature %x is wrong (%v)", digest, sig, err)
				}
			}
		})
	}
	wg.Wait()
}

// edgeDigests are those that arithmetic modulo the order could trip over.
func edgeDigests() [][]byte {
	n := elliptic.P256().Params().N
	var all [][]byte
	for _, x := range []*big.Int{new(big.Int), big.NewInt(1), new(big.Int).Sub(n, big.NewInt(1)), n, new(big.Int).Add(n, big.NewInt(1))} {
		all = append(all, x.FillBytes(make([]byte, digestSize)))
	}
	return append(all, bytes.Repeat([]byte{0xff}, digestSize))
}

func checkEdgeDigests(t *testing.T, s *Signer) {
	t.Helper()
	for _, digest := range edgeDigests() {
		if sig, err := s.Sign(rand.Reader, digest, crypto.SHA256); err != nil || !ecdsa.VerifyASN1(s.Public().(*ecdsa.PublicKey), digest, sig) {
			t.Errorf("digest %x: signature %x is wrong (%v)", digest, sig, err)
		}
	}
}

func TestSigner(t *testing.T) {
	p := openTest(t, Config{KeyPoolSize: -1})
	key := p256Key(t)
	s := newSigner(t, p, key)
	if !key.PublicKey.Equal(s.Public()) {
		t.Error("another public key")
	}
	signAll(t, s, 4, 5)
	checkEdgeDigests(t, s)
	if st := p.Stats().Signatures; st.Served != 26 || st.ByGPU != 0 || st.Failures != 0 || st.Operation != "sign" || st.Scheme != "ECDSA-P-256" {
		t.Errorf("%+v", st)
	}
}

// What no device signs, crypto/ecdsa does in its own way, and after Close it signs
// everything.
func TestSignerLeavesToCryptoECDSA(t *testing.T) {
	p := openTest(t, Config{KeyPoolSize: -1})
	key := p256Key(t)
	s := newSigner(t, p, key)
	for _, hash := range []crypto.Hash{crypto.SHA384, crypto.SHA512} {
		digest := hash.New().Sum(nil)
		if sig, err := s.Sign(rand.Reader, digest, hash); err != nil || !ecdsa.VerifyASN1(&key.PublicKey, digest, sig) {
			t.Errorf("%v: %x (%v)", hash, sig, err)
		}
	}
	digest := sha256.Sum256([]byte("deterministic"))
	want, err := key.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	if sig, err := s.Sign(nil, digest[:], crypto.SHA256); err != nil || !bytes.Equal(sig, want) {
		t.Errorf("without randomness: %x (%v), want %x", sig, err, want)
	}
	if _, err := s.Sign(nil, make([]byte, sha512.Size), crypto.SHA256); err == nil {
		t.Error("a digest of the wrong size is signed")
	}
	p.Close()
	signAll(t, s, 1, 1)
	if st := p.Stats().Signatures; st.Served != 0 {
		t.Errorf("%+v", st)
	}
}

// withNumber returns a key that crypto/ecdsa would not make.
func withNumber(key ecdsa.PrivateKey, d *big.Int) *ecdsa.PrivateKey {
	key.D = d //lint:ignore SA1019 there is no other way to an invalid key
	return &key
}

func TestSignerRefuses(t *testing.T) {
	p := openTest(t, Config{KeyPoolSize: -1})
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	stranger := *p256Key(t)
	stranger.PublicKey = p256Key(t).PublicKey
	for _, c := range []struct {
		want string
		key  *ecdsa.PrivateKey
	}{
		{"needs an ECDSA private key", nil},
		{"needs an ECDSA private key", new(ecdsa.PrivateKey)},
		{"on P-256, not on P-384; use that key", p384},
		{"does not belong to the public key", &stranger},
		{"provider: Signer: ", withNumber(stranger, new(big.Int))},
		{"provider: Signer: ", withNumber(stranger, elliptic.P256().Params().N)},
	} {
		if _, err := p.Signer(c.key); err == nil || !strings.HasPrefix(err.Error(), "provider: Signer") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// An engine that panics fails the signature, not the process.
func TestSignerPanic(t *testing.T) {
	p, _ := openWith(t, Config{KeyPoolSize: -1}, slog.New(slog.DiscardHandler), func(context.Context, []request) { panic("boom") })
	s := newSigner(t, p, p256Key(t))
	if _, err := s.Sign(rand.Reader, make([]byte, digestSize), crypto.SHA256); err != errEnginePanic {
		t.Errorf("%v, want errEnginePanic", err)
	}
	if st := p.Stats().Signatures; st.Failures != 1 {
		t.Errorf("%+v", st)
	}
}

// The encoding is that of encoding/asn1, for numbers of every length.
func TestPutDER(t *testing.T) {
	check := func(numbers []byte) {
		t.Helper()
		want, err := asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(numbers[:32]), new(big.Int).SetBytes(numbers[32:])})
		if err != nil {
			t.Fatal(err)
		}
		out := bytes.Repeat([]byte{0xa5}, maxSignatureSize)
		putDER(out, numbers)
		if got := derOf(out); !bytes.Equal(got, want) || !bytes.Equal(out[len(got):], make([]byte, maxSignatureSize-len(got))) {
			t.Errorf("%x: %x, want %x and zeros", numbers, out, want)
		}
	}
	for zeros := range 33 {
		for _, first := range []byte{0, 1, 0x7f, 0x80, 0xff} {
			r, s := random(32), random(32)
			clear(r[:zeros])
			if zeros < 32 {
				r[zeros] = first
			}
			check(append(bytes.Clone(r), s...))
			check(append(bytes.Clone(s), r...))
		}
	}
	check(make([]byte, 64))
}

// The router measures signatures, and sends them to a device if there is a load, if
// their key has a share in it that fills batches, and if the device knows the key.
func TestRouteSignatures(t *testing.T) {
	r, g, _ := route761()
	g.takes = latency{mean: time.Second, base: time.Second, flight: time.Second} // longer than any signature takes here
	g.entered = make(chan int, 1)
	close(g.hold)
	k := &signingKey{private: p256Key(t), number: random(32)}
	sign := func() (q *request, onGPU bool) {
		batch := []request{{op: opSign, key: k, peer: random(digestSize), out: make([]byte, maxSignatureSize)}}
		r.serve(t.Context(), batch)
		select {
		case <-g.entered:
			onGPU = true
		default:
			if !verifies(&batch[0]) {
				t.Errorf("%v, %x", batch[0].err, batch[0].out)
			}
		}
		return &batch[0], onGPU
	}
	if q, onGPU := sign(); onGPU || q.wanted {
		t.Error("a signature alone is not for the GPU")
	}
	if r.sign.cost.Value() == 0 {
		t.Error("the CPU's cost is not measured")
	}
	r.onCPU.Store(20)
	settle(r, r.sign)
	if q, onGPU := sign(); onGPU || q.wanted {
		t.Error("a signature by a key without much to do is not for the GPU, whatever else there is to do")
	}
	k.onCPU.Store(8)
	for range 500 {
		k.inDemand(1, r.share(r.sign), r.least(r.sign, g.takes))
	}
	if q, onGPU := sign(); onGPU || !q.wanted {
		t.Error("no device is to know the key")
	}
	k.device.Store(true)
	if _, onGPU := sign(); !onGPU {
		t.Error("a signature by a key in demand is for the GPU")
	}
	if k.onGPU.Load() != 0 || k.onCPU.Load() != 8 || r.sign.onGPU.Load() != 0 {
		t.Error("signatures are in flight")
	}
	var st Stats
	r.stats(&st)
	if last := st.Routing.Routes[len(st.Routing.Routes)-1]; last.Operation != "sign" || last.CPUCost == 0 {
		t.Errorf("%+v", last)
	}
}

// The load of a key does not depend on where its signatures are made.
func TestKeyLoad(t *testing.T) {
	const share = 0.125 // a batch takes eight times as long as a signature
	for _, c := range []struct {
		onCPU, onGPU, batch int64
		want                bool
	}{{0, 0, 1, false}, {0, 1, 1, false}, {0, 3, 1, true}, {1, 0, 1, true}, {0, 0, 2, false}, {0, 0, 3, true}} {
		var k keyLoad
		k.onCPU.Store(c.onCPU)
		k.onGPU.Store(c.onGPU)
		got := false
		for range 500 {
			got = k.inDemand(c.batch, share, 2)
		}
		if got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
		if !k.inDemand(1, 1, 2) {
			t.Error("a GPU that was not measured is not tried")
		}
	}
}
