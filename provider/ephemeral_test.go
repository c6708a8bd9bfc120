package provider

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// openStocked returns a Provider of the CPU's whose stock of ephemeral keys is full.
func openStocked(t *testing.T, s *ctruprime.Scheme, c client) (*Provider, *ephemerals) {
	t.Helper()
	e := &cpuEngine{log: slog.Default()}
	p := open(Config{KeyPoolSize: -1}, slog.Default(), e)
	t.Cleanup(func() { p.Close() })
	if _, _, err := p.ServerExchange(t.Context(), s, c.share); err != nil {
		t.Fatal(err)
	}
	e.ephemerals.maker.Wait()
	if n := len(e.ephemerals.stock); n != ephemeralStock {
		t.Fatalf("%d keys in stock, want %d", n, ephemeralStock)
	}
	return p, &e.ephemerals
}

// A server's exchange on the CPU uses a key that was made ahead, each key once, and
// both sides have the same secret.
func TestEphemerals(t *testing.T) {
	s := ctruprime.Scheme761()
	c := ownClient(t, s)
	p, ready := openStocked(t, s, c)
	next := ready.stock[len(ready.stock)-1].key.PublicKey().Bytes()
	share, secret, err := p.ServerExchange(t.Context(), s, c.share)
	if err != nil || !bytes.Equal(share[:x25519Size], next) {
		t.Fatalf("%v; the share does not begin with the key that was made ahead", err)
	}
	if finished, err := p.ClientFinish(t.Context(), s, c.x, c.sk, share); err != nil || !bytes.Equal(finished, secret) {
		t.Fatalf("%v; the two sides' secrets differ", err)
	}
	ready.maker.Wait()

	const callers, calls = 8, ephemeralStock
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		seen = make(map[[x25519Size]byte]bool)
	)
	for range callers {
		wg.Go(func() {
			for range calls {
				share, _, err := p.ServerExchange(t.Context(), s, c.share)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				seen[[x25519Size]byte(share)] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != callers*calls {
		t.Errorf("%d exchanges with %d different keys", callers*calls, len(seen))
	}
}

// An exchange from a seed uses no key but the one in it.
func TestEphemeralsNotForSeeds(t *testing.T) {
	s := ctruprime.Scheme761()
	c := ownClient(t, s)
	p, ready := openStocked(t, s, c)
	seed, public := seedOf(t)
	h := p.Hybrids()[1]
	ct, _, err := h.EncapsulateDeterministically(mustPublic(t, h, c.share), seed)
	if err != nil || !bytes.Equal(ct[:x25519Size], public) {
		t.Errorf("%v; a seed's share does not begin with its key", err)
	}
	if n := len(ready.stock); n != ephemeralStock {
		t.Errorf("%d keys are left of %d", n, ephemeralStock)
	}
}

// seedOf returns a seed of a server's exchange, and the public key of the X25519 key in it.
func seedOf(t *testing.T) (seed, public []byte) {
	t.Helper()
	seed = random(HybridEncapsulationSeedSize)
	x, err := ecdh.X25519().NewPrivateKey(seed[:x25519Size])
	if err != nil {
		t.Fatal(err)
	}
	return seed, x.PublicKey().Bytes()
}

// What is measured of an exchange counts what its key took, whoever made that when.
func TestEphemeralsAreCounted(t *testing.T) {
	s := ctruprime.Scheme653()
	c := ownClient(t, s)
	var cost time.Duration
	e := &cpuEngine{log: slog.Default(), observe: func(_ *request, _ int, took time.Duration) { cost = took }}
	p := open(Config{KeyPoolSize: -1}, slog.Default(), e)
	defer p.Close()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	e.ephemerals.stock = []ephemeral{{key, time.Hour}}
	if _, _, err := p.ServerExchange(t.Context(), s, c.share); err != nil || cost < time.Hour {
		t.Errorf("%v; the exchange is counted as %v, without its key", err, cost)
	}
}

// A key that is being made is part of the load, as it was when the exchange made it.
func TestEphemeralsAreLoad(t *testing.T) {
	var busy atomic.Int64
	s := ephemerals{busy: &busy, making: true}
	s.mu.Lock()
	s.maker.Go(s.fill)
	for busy.Load() != 1 {
		runtime.Gosched()
	}
	s.mu.Unlock()
	s.maker.Wait()
	if busy.Load() != 0 || len(s.stock) != ephemeralStock {
		t.Errorf("%d busy, %d keys", busy.Load(), len(s.stock))
	}
	if r, _, _ := route761(); r.cpu.ephemerals.busy != &r.onCPU {
		t.Error("a router does not count it")
	}
}

// Close drops the keys and ends their making; there are none any more.
func TestEphemeralsClose(t *testing.T) {
	s := ctruprime.Scheme653()
	p, ready := openStocked(t, s, ownClient(t, s))
	p.Close()
	if _, ok := ready.take(); ok || ready.stock != nil || ready.making {
		t.Error("there are keys after Close")
	}
}
