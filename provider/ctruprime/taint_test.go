//go:build valgrind && linux && amd64

package ctruprime

import (
	"bytes"
	"flag"
	"testing"

	"github.com/ctrutls/ctrutls/provider/internal/valgrind"
)

// TestTaint runs every operation with its secrets marked undefined; it is for
// valgrind, which then reports each branch and each address that depends on them
// (see scripts/taint.sh). -ctruprime.leak plants one in each operation.

var leak = flag.String("ctruprime.leak", "", "plant a leak: `branch` or address")

func TestTaint(t *testing.T) {
	r := newRandom(t)
	forEachLevel(t, func(t *testing.T, s, plain *Scheme) {
		taintKeyGeneration(t, r, s)
		// A group's last lanes are empty; so are a batch's, or it has one more.
		taintKeyGroup(t, r, s, maxLanes+1)
		for _, size := range []int{1, 2, maxLanes - 1, maxLanes + 1} {
			taintEncapsulation(t, r, s, size)
			taintDecapsulation(t, r, s, plain, size)
		}
	})
}

//go:noinline
func taintKeyGeneration(t *testing.T, r random, s *Scheme) {
	seed, sk := r.bytes(KeySeedSize), make([]byte, s.PrivateKeySize())
	valgrind.Secret(seed)
	check(t, s.GenerateKeyBytes(sk, seed))
	plantLeak(sk)
	valgrind.Public(sk)
}

//go:noinline
func taintKeyGroup(t *testing.T, r random, s *Scheme, size int) {
	sks, seeds := make([][]byte, size), make([][]byte, size)
	for i := range sks {
		sks[i], seeds[i] = make([]byte, s.PrivateKeySize()), r.bytes(KeySeedSize)
		valgrind.Secret(seeds[i])
	}
	check(t, s.GenerateKeysBytes(sks, seeds))
	for i := range sks {
		plantLeak(sks[i])
		valgrind.Public(sks[i])
	}
}

// taintEncapsulation encapsulates one by one and as a batch, with secret seeds.
//
//go:noinline
func taintEncapsulation(t *testing.T, r random, s *Scheme, size int) {
	sk, _ := r.newKey(t, s)
	batch := make([]Encapsulation, size)
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
		plantLeak(e.SharedKey)
		valgrind.Public(e.Ciphertext)
		valgrind.Public(e.SharedKey)
	}
}

// taintDecapsulation decapsulates one by one and as a batch, with a secret key,
// ciphertexts of which every other one is tampered with.
//
//go:noinline
func taintDecapsulation(t *testing.T, r random, s, plain *Scheme, size int) {
	packed, _ := r.newKey(t, s)
	batch, want := make([]Decapsulation, size), make([][]byte, size)
	for i := range batch {
		ct := make([]byte, s.CiphertextSize())
		want[i] = make([]byte, SharedKeySize)
		check(t, plain.EncapsulateBytes(ct, want[i], s.PublicKeyOf(packed), r.bytes(EncapsulationSeedSize)))
		if i%2 == 1 {
			ct[r.below(len(ct))] ^= 1 << r.below(8)
			check(t, plain.DecapsulateBytes(want[i], packed, ct))
		}
		sk := bytes.Clone(packed)
		valgrind.Secret(sk[:s.privatePoly])
		valgrind.Secret(s.rejectionOf(sk))
		batch[i] = Decapsulation{make([]byte, SharedKeySize), sk, ct, nil}
	}
	for i, d := range batch {
		got := make([]byte, SharedKeySize)
		check(t, s.DecapsulateBytes(got, d.PrivateKey, d.Ciphertext))
		valgrind.Public(got)
		equalBytes(t, "key", got, want[i])
	}
	s.DecapsulateBatch(batch)
	for i, d := range batch {
		check(t, d.Err)
		plantLeak(d.SharedKey)
		valgrind.Public(d.SharedKey)
		equalBytes(t, "key of a batch", d.SharedKey, want[i])
	}
}

var planted int

// plantLeak does with a secret what must not be done. Of a private key the first
// bit is no secret: packed coefficients are of one parity.
//
//go:noinline
func plantLeak(secret []byte) {
	switch *leak {
	case "branch":
		if secret[0]&2 == 2 {
			planted++
		}
	case "address":
		planted += leakTable[secret[0]]
	}
}

var leakTable [256]int
