//go:build valgrind && linux && amd64

package ctruprime

import (
	"bytes"
	"flag"
	"testing"

	"github.com/ctrutls/ctrutls/provider/ctruprime/internal/valgrind"
)

// TestTaint runs every operation with its secrets marked undefined; it is for
// valgrind, which then reports each branch and each address that depends on them
// (see scripts/taint.sh). -ctruprime.leak plants one.

var leak = flag.String("ctruprime.leak", "", "plant a leak: `branch` or address")

func TestTaint(t *testing.T) {
	r := newRandom(t)
	forEachLevel(t, func(t *testing.T, s, plain *Scheme) {
		taintKeyGeneration(t, r, s)
		taintKeyGroup(t, r, s)
		taintEncapsulation(t, r, s)
		taintDecapsulation(t, r, s, plain, false)
		taintDecapsulation(t, r, s, plain, true)
	})
}

func taintKeyGeneration(t *testing.T, r random, s *Scheme) {
	seed, sk := r.bytes(KeySeedSize), make([]byte, s.PrivateKeySize())
	valgrind.Secret(seed)
	check(t, s.GenerateKeyBytes(sk, seed))
	plantLeak(sk)
	valgrind.Public(sk)
}

func taintKeyGroup(t *testing.T, r random, s *Scheme) {
	sks, seeds := make([][]byte, 5), make([][]byte, 5)
	for i := range sks {
		sks[i], seeds[i] = make([]byte, s.PrivateKeySize()), r.bytes(KeySeedSize)
		valgrind.Secret(seeds[i])
	}
	check(t, s.GenerateKeysBytes(sks, seeds))
	for i := range sks {
		valgrind.Public(sks[i])
	}
}

func taintEncapsulation(t *testing.T, r random, s *Scheme) {
	sk, _ := r.newKey(t, s)
	batch := make([]Encapsulation, 3)
	for i := range batch {
		seed := r.bytes(EncapsulationSeedSize)
		valgrind.Secret(seed)
		batch[i] = Encapsulation{make([]byte, s.CiphertextSize()), make([]byte, SharedKeySize), s.PublicKeyOf(sk), seed, nil}
	}
	e := batch[0]
	check(t, s.EncapsulateBytes(e.Ciphertext, e.SharedKey, e.PublicKey, e.Seed))
	s.EncapsulateBatch(batch)
	for _, e := range batch {
		check(t, e.Err)
		valgrind.Public(e.Ciphertext)
		valgrind.Public(e.SharedKey)
	}
}

// taintDecapsulation takes DecapsulateBytes apart: whether the private key is
// valid shows, and nothing else.
func taintDecapsulation(t *testing.T, r random, s, plain *Scheme, tampered bool) {
	sk, key := r.newKey(t, s)
	ct, want := make([]byte, s.CiphertextSize()), make([]byte, SharedKeySize)
	check(t, plain.EncapsulateBytes(ct, want, s.PublicKeyOf(sk), r.bytes(EncapsulationSeedSize)))
	if tampered {
		ct[r.below(len(ct))] ^= 1 << r.below(8)
		check(t, plain.DecapsulateBytes(want, sk, ct))
	}
	w, got := s.borrow(), make([]byte, SharedKeySize)
	valgrind.Secret(sk[:s.privatePoly])
	valgrind.Secret(s.rejectionOf(sk))
	valid := []bool{s.unpackPrivatePoly(w.small, sk[:s.privatePoly])}
	valgrind.Public(valid)
	if !valid[0] {
		t.Fatal("the key is invalid")
	}
	f := s.transformOnce(w.secretKey(), w.small)
	s.decapsulate(got, s.PublicKeyOf(sk), s.rejectionOf(sk), f, key.public.h, ct, w)
	valgrind.Public(got)
	s.giveBack(w)
	if !bytes.Equal(got, want) {
		t.Fatal("wrong key")
	}
}

var planted int

// plantLeak does with secrets what must not be done.
//
//go:noinline
func plantLeak(secret []byte) {
	switch *leak {
	case "branch":
		if secret[0]&1 == 1 {
			planted++
		}
	case "address":
		planted += leakTable[secret[0]]
	}
}

var leakTable [256]int
