//go:build (sim || gputest) && !nogpu

package provider

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
)

var cardSignatures = flag.Int("card.signatures", onCardElse(150_000, 24), "signatures to check")

func signingCard(t testing.TB) Config {
	t.Helper()
	cfg := cardConfig(t)
	cfg.GPU.Sign, cfg.GPU.Schemes = true, sets[:1]
	return cfg
}

// A device makes the signatures of RFC 6979 with SHA-256 bit for bit as
// crypto/ecdsa does, and with added randomness others that are right too, for two
// keys at once, in batches as they come.
func TestCardSigner(t *testing.T) {
	p := openTest(t, signingCard(t))
	const callers, batch = 64, 16
	signers := []*Signer{newSigner(t, p, p256Key(t)), newSigner(t, p, p256Key(t))}
	var wg sync.WaitGroup
	for i := range min(callers, *cardSignatures/batch+1) {
		s := signers[i%len(signers)]
		wg.Go(func() {
			for done := 0; done < *cardSignatures/callers+1; done += batch {
				checkSignatures(t, p, s, batch)
			}
		})
	}
	wg.Wait()
	for _, s := range signers {
		checkEdgeDigests(t, s)
	}
	st := p.Stats()
	t.Logf("%+v", st.GPU)
	if st.GPU.Served < uint64(*cardSignatures) || st.GPU.Mismatches != 0 || st.GPU.Faulted != 0 {
		t.Errorf("%+v, %+v", st.GPU, st.Signatures)
	}
}

// checkSignatures has n digests signed, every other deterministically.
func checkSignatures(t *testing.T, p *Provider, s *Signer, n int) {
	batch := make([]request, n)
	for i := range batch {
		batch[i] = request{op: opSign, key: s.key, peer: random(digestSize), out: make([]byte, maxSignatureSize)}
		if i%2 == 0 {
			batch[i].own = random(digestSize)
		}
	}
	p.engine.serve(t.Context(), batch)
	for i := range batch {
		r := &batch[i]
		if !r.device { // it was full: crypto/ecdsa's own
			continue
		}
		if r.own != nil {
			if !verifies(r) {
				t.Errorf("digest %x: %x is no signature", r.peer, r.out)
			}
			continue
		}
		if want, err := s.key.private.Sign(nil, r.peer, crypto.SHA256); err != nil || !bytes.Equal(derOf(r.out), want) {
			t.Errorf("digest %x: %x, want %x (%v)", r.peer, derOf(r.out), want, err)
		}
	}
}

// BenchmarkCardSign has so many callers sign without a pause, by the GPU, by the
// CPU, and by whichever EngineAuto chooses. crypto-ecdsa is what they would do
// without a Provider.
func BenchmarkCardSign(b *testing.B) {
	key := p256Key(b)
	digest := random(digestSize)
	callers := []int{1, 16, 64, 256, 1024, 4096}
	for _, engine := range []Engine{EngineGPU, EngineCPU, EngineAuto} {
		for _, n := range callers {
			b.Run(fmt.Sprintf("%s/%d", engine, n), func(b *testing.B) {
				cfg := signingCard(b)
				cfg.Engine = engine
				p, err := Open(cfg)
				if err != nil {
					b.Fatal(err)
				}
				defer p.Close()
				s := newSigner(b, p, key)
				for range b.N {
					measureCalls(b, p, n, func() error {
						_, err := s.Sign(rand.Reader, digest, crypto.SHA256)
						return err
					})
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
	b.Run(fmt.Sprintf("crypto-ecdsa/%d", slices.Max(callers)), func(b *testing.B) {
		p, err := Open(Config{KeyPoolSize: -1})
		if err != nil {
			b.Fatal(err)
		}
		defer p.Close()
		for range b.N {
			measureCalls(b, p, slices.Max(callers), func() error {
				_, err := ecdsa.SignASN1(rand.Reader, key, digest)
				return err
			})
		}
		b.ReportMetric(0, "ns/op")
	})
}
