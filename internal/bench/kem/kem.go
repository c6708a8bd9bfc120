// Package kem has the operations of CTRU-Prime on the CPU, at each level of instructions and in batches, and those of ML-KEM-768 and X25519
// to compare them with, as functions to be timed side by side.
//
// It must not be needed by anything that serves requests, and knows neither TLS nor GPUs.
package kem

import (
	"bytes"
	"crypto/ecdh"
	"crypto/mlkem"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/cloudflare/circl/kem/mlkem/mlkem768"

	"github.com/ctrutls/ctrutls/internal/bench/interleaved"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// An Operation is one to time.
type Operation struct {
	Of   string // "CTRU-Prime-761", "ML-KEM-768 (circl)", "X25519"
	Code string // the level of instructions; empty if there is no choice
	Name string // "Encaps, from bytes"
	Each int    // operations that one call makes
	Call func() error
}

// Subject is the operation as package interleaved times it.
func (o Operation) Subject() interleaved.Subject {
	name := o.Of + ", " + o.Name
	if o.Code != "" {
		name = o.Code + ", " + name
	}
	return interleaved.Subject{Name: name, Each: o.Each, Call: o.Call}
}

// Names of operations. "From bytes" parses and validates the packed key each time, as a server has to do with a client's.
const (
	KeyGen          = "KeyGen"
	KeyGenBatch     = "KeyGen, batch of 32, each"
	EncapsBytes     = "Encaps, from bytes"
	EncapsParsed    = "Encaps, parsed key"
	DecapsBytes     = "Decaps, from bytes"
	DecapsParsed    = "Decaps, parsed key"
	EncapsBatch     = "Encaps, batch of 4, each"
	DecapsBatch     = "Decaps, batch of 4, each"
	ECDH            = "ECDH"
	keysOfBatch     = ctruprime.MaxKeyGroup
	operationsAtOne = 4 // of EncapsBatch and DecapsBatch
)

// ClearRegisters runs vector code of ours, which ends with VZEROUPPER. circl's does not, and on some processors all code that uses
// vector registers is many times slower after it, until somebody does: call it before each turn of what is measured.
func ClearRegisters() func() {
	s := ctruprime.Scheme653()
	seed, sk := make([]byte, ctruprime.KeySeedSize), make([]byte, s.PrivateKeySize())
	ct, ss := make([]byte, s.CiphertextSize()), make([]byte, ctruprime.SharedKeySize)
	err := s.GenerateKeyBytes(sk, seed)
	return func() {
		if err = errors.Join(err, s.EncapsulateBytes(ct, ss, s.PublicKeyOf(sk), seed[:ctruprime.EncapsulationSeedSize])); err != nil {
			panic("kem: " + err.Error()) // all lengths are right
		}
	}
}

// MLKEM768 returns the operations of circl's ML-KEM-768, of which the encapsulation with a parsed key is the first: it is the unit that
// this project's measurements use. Then come those of the standard library's.
func MLKEM768() ([]Operation, error) {
	scheme := mlkem768.Scheme()
	pk, sk, err := scheme.GenerateKeyPair()
	if err != nil {
		return nil, fmt.Errorf("kem: %w", err)
	}
	packed, err := pk.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("kem: %w", err)
	}
	ct, _, err := scheme.Encapsulate(pk)
	if err != nil {
		return nil, fmt.Errorf("kem: %w", err)
	}
	const circl = "ML-KEM-768 (circl)"
	all := []Operation{
		{circl, "", EncapsParsed, 1, func() error { _, _, err := scheme.Encapsulate(pk); return err }},
		{circl, "", EncapsBytes, 1, func() error {
			key, err := scheme.UnmarshalBinaryPublicKey(packed)
			if err != nil {
				return err
			}
			_, _, err = scheme.Encapsulate(key)
			return err
		}},
		{circl, "", DecapsParsed, 1, func() error { _, err := scheme.Decapsulate(sk, ct); return err }},
		{circl, "", KeyGen, 1, func() error { _, _, err := scheme.GenerateKeyPair(); return err }},
	}
	std, err := standardMLKEM768(packed)
	return append(all, std...), err
}

func standardMLKEM768(packed []byte) ([]Operation, error) {
	dk, err := mlkem.GenerateKey768()
	if err != nil {
		return nil, fmt.Errorf("kem: %w", err)
	}
	ek := dk.EncapsulationKey()
	_, ct := ek.Encapsulate()
	const std = "ML-KEM-768 (crypto/mlkem)"
	return []Operation{
		{std, "", EncapsParsed, 1, func() error { ek.Encapsulate(); return nil }},
		{std, "", EncapsBytes, 1, func() error {
			key, err := mlkem.NewEncapsulationKey768(packed)
			if err == nil {
				key.Encapsulate()
			}
			return err
		}},
		{std, "", DecapsParsed, 1, func() error { _, err := dk.Decapsulate(ct); return err }},
		{std, "", KeyGen, 1, func() error { _, err := mlkem.GenerateKey768(); return err }},
	}, nil
}

// X25519 returns crypto/ecdh's operations, the shared secret first.
func X25519() ([]Operation, error) {
	curve := ecdh.X25519()
	ours, err := curve.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("kem: %w", err)
	}
	theirs, err := curve.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("kem: %w", err)
	}
	public := theirs.PublicKey()
	const name = "X25519"
	return []Operation{
		{name, "", ECDH, 1, func() error { _, err := ours.ECDH(public); return err }},
		{name, "", KeyGen, 1, func() error { _, err := curve.GenerateKey(rand.Reader); return err }},
	}, nil
}

// A subject is a scheme with a key, a ciphertext that was made for it, and room for results.
type subject struct {
	*ctruprime.Scheme
	sk, pk, ct, ss, seed, keySeed []byte
	out                           []byte // a ciphertext's place
}

func newSubject(s *ctruprime.Scheme) (*subject, error) {
	u := &subject{Scheme: s, sk: make([]byte, s.PrivateKeySize()), ct: make([]byte, s.CiphertextSize()), out: make([]byte, s.CiphertextSize()),
		ss: make([]byte, ctruprime.SharedKeySize), seed: make([]byte, ctruprime.EncapsulationSeedSize), keySeed: make([]byte, ctruprime.KeySeedSize)}
	rand.Read(u.seed)
	rand.Read(u.keySeed)
	if err := s.GenerateKeyBytes(u.sk, u.keySeed); err != nil {
		return nil, fmt.Errorf("kem: %w", err)
	}
	u.pk = s.PublicKeyOf(u.sk)
	if err := s.EncapsulateBytes(u.ct, u.ss, u.pk, u.seed); err != nil {
		return nil, fmt.Errorf("kem: %w", err)
	}
	return u, nil
}

// Of returns the operations of a parameter set at a level.
func Of(set *ctruprime.Scheme, level ctruprime.Level) ([]Operation, error) {
	s, err := set.At(level)
	if err != nil {
		return nil, err
	}
	u, err := newSubject(s)
	if err != nil {
		return nil, err
	}
	key, err := s.UnmarshalBinaryPublicKey(u.pk)
	if err != nil {
		return nil, fmt.Errorf("kem: %w", err)
	}
	parsed, ok := key.(*ctruprime.PublicKey)
	if !ok {
		return nil, fmt.Errorf("kem: a public key of %s is a %T", s.Name(), key)
	}
	operation := func(name string, each int, call func() error) Operation {
		return Operation{s.Name(), level.String(), name, each, call}
	}
	made := make([]byte, len(u.sk))
	return []Operation{
		operation(EncapsBytes, 1, func() error { return s.EncapsulateBytes(u.out, u.ss, u.pk, u.seed) }),
		operation(EncapsParsed, 1, func() error { return s.EncapsulateTo(u.out, u.ss, parsed, u.seed) }),
		operation(EncapsBatch, operationsAtOne, u.encapsulate(operationsAtOne)),
		operation(DecapsBytes, 1, func() error { return s.DecapsulateBytes(u.ss, u.sk, u.ct) }),
		operation(DecapsBatch, operationsAtOne, u.decapsulate(operationsAtOne)),
		operation(KeyGen, 1, func() error { return s.GenerateKeyBytes(made, u.keySeed) }),
		operation(KeyGenBatch, keysOfBatch, u.generate(keysOfBatch)),
	}, nil
}

// Batches returns an operation of a set in batches of sizes, by the code that the set uses of itself.
func Batches(set *ctruprime.Scheme, name string, sizes []int) ([]Operation, error) {
	u, err := newSubject(set)
	if err != nil {
		return nil, err
	}
	of := map[string]func(n int) func() error{EncapsBytes: u.encapsulate, DecapsBytes: u.decapsulate, KeyGen: u.generate}[name]
	if of == nil {
		return nil, fmt.Errorf("kem: there are no batches of %q", name)
	}
	var all []Operation
	for _, n := range sizes {
		all = append(all, Operation{set.Name(), "", fmt.Sprintf("%s, batch of %d", name, n), n, of(n)})
	}
	return all, nil
}

// encapsulate makes n encapsulations at once, each with buffers of its own.
func (u *subject) encapsulate(n int) func() error {
	batch := make([]ctruprime.Encapsulation, n)
	for i := range batch {
		batch[i] = ctruprime.Encapsulation{Ciphertext: make([]byte, len(u.ct)), SharedKey: make([]byte, len(u.ss)), PublicKey: bytes.Clone(u.pk), Seed: bytes.Clone(u.seed)}
	}
	return func() error {
		u.EncapsulateBatch(batch)
		for i := range batch {
			if batch[i].Err != nil {
				return batch[i].Err
			}
		}
		return nil
	}
}

func (u *subject) decapsulate(n int) func() error {
	batch := make([]ctruprime.Decapsulation, n)
	for i := range batch {
		batch[i] = ctruprime.Decapsulation{SharedKey: make([]byte, len(u.ss)), PrivateKey: bytes.Clone(u.sk), Ciphertext: bytes.Clone(u.ct)}
	}
	return func() error {
		u.DecapsulateBatch(batch)
		for i := range batch {
			if batch[i].Err != nil {
				return batch[i].Err
			}
		}
		return nil
	}
}

func (u *subject) generate(n int) func() error {
	sks, seeds := make([][]byte, n), make([][]byte, n)
	for i := range sks {
		sks[i], seeds[i] = make([]byte, len(u.sk)), make([]byte, ctruprime.KeySeedSize)
		rand.Read(seeds[i])
	}
	return func() error { return u.GenerateKeysBytes(sks, seeds) }
}
