package provider

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/cloudflare/circl/kem"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// Schemes returns the three parameter sets as circl kem.Schemes whose
// operations the Provider serves. Names, sizes and bytes are those of package
// ctruprime, and keys of that package's schemes are accepted.
func (p *Provider) Schemes() []kem.Scheme {
	schemes := make([]kem.Scheme, len(p.schemes))
	for i, s := range p.schemes {
		schemes[i] = &servedScheme{s, p}
	}
	return schemes
}

// SchemeByName returns the scheme of Schemes or Hybrids with that name, in any
// case, or nil.
func (p *Provider) SchemeByName(name string) kem.Scheme {
	for _, s := range append(p.Schemes(), p.Hybrids()...) {
		if strings.EqualFold(s.Name(), name) {
			return s
		}
	}
	return nil
}

// servedScheme is a parameter set whose operations a Provider serves.
type servedScheme struct {
	*ctruprime.Scheme
	p *Provider
}

// servedPublicKey and servedPrivateKey are the set's keys, but for the scheme
// that they say they are of.
type servedPublicKey struct {
	*ctruprime.PublicKey
	scheme *servedScheme
}

type servedPrivateKey struct {
	*ctruprime.PrivateKey
	scheme *servedScheme
}

func (k *servedPublicKey) Scheme() kem.Scheme  { return k.scheme }
func (k *servedPrivateKey) Scheme() kem.Scheme { return k.scheme }
func (k *servedPrivateKey) Public() kem.PublicKey {
	return &servedPublicKey{k.PrivateKey.Public().(*ctruprime.PublicKey), k.scheme}
}

func (k *servedPublicKey) Equal(o kem.PublicKey) bool {
	other, err := k.scheme.publicKey(o)
	return err == nil && k.PublicKey.Equal(other)
}

func (k *servedPrivateKey) Equal(o kem.PrivateKey) bool {
	other, err := k.scheme.privateKey(o)
	return err == nil && k.PrivateKey.Equal(other)
}

// publicKey returns the parsed key inside a key of this scheme.
func (s *servedScheme) publicKey(k kem.PublicKey) (*ctruprime.PublicKey, error) {
	if served, ok := k.(*servedPublicKey); ok {
		k = served.PublicKey
	}
	if pk, ok := k.(*ctruprime.PublicKey); ok && pk.Scheme() == kem.Scheme(s.Scheme) {
		return pk, nil
	}
	return nil, kem.ErrTypeMismatch
}

// privateKey returns the parsed key inside a key of this scheme.
func (s *servedScheme) privateKey(k kem.PrivateKey) (*ctruprime.PrivateKey, error) {
	if served, ok := k.(*servedPrivateKey); ok {
		k = served.PrivateKey
	}
	if sk, ok := k.(*ctruprime.PrivateKey); ok && sk.Scheme() == kem.Scheme(s.Scheme) {
		return sk, nil
	}
	return nil, kem.ErrTypeMismatch
}

func (s *servedScheme) wrapPublic(k kem.PublicKey) kem.PublicKey {
	return &servedPublicKey{k.(*ctruprime.PublicKey), s}
}

func (s *servedScheme) wrapPrivate(k kem.PrivateKey) kem.PrivateKey {
	return &servedPrivateKey{k.(*ctruprime.PrivateKey), s}
}

func (s *servedScheme) UnmarshalBinaryPublicKey(b []byte) (kem.PublicKey, error) {
	k, err := s.Scheme.UnmarshalBinaryPublicKey(b)
	if err != nil {
		return nil, err
	}
	return s.wrapPublic(k), nil
}

func (s *servedScheme) UnmarshalBinaryPrivateKey(b []byte) (kem.PrivateKey, error) {
	k, err := s.Scheme.UnmarshalBinaryPrivateKey(b)
	if err != nil {
		return nil, err
	}
	return s.wrapPrivate(k), nil
}

func (s *servedScheme) GenerateKeyPair() (kem.PublicKey, kem.PrivateKey, error) {
	packed, err := s.p.GenerateKey(context.Background(), s.Scheme)
	if err != nil {
		return nil, nil, err
	}
	defer clear(packed)
	sk, err := s.UnmarshalBinaryPrivateKey(packed)
	if err != nil {
		return nil, nil, fmt.Errorf("provider: a generated key does not parse: %w", err)
	}
	return sk.Public(), sk, nil
}

// DeriveKeyPair has no way to report an error, so it needs no engine: it runs
// in the caller's goroutine, on a closed Provider too.
func (s *servedScheme) DeriveKeyPair(seed []byte) (kem.PublicKey, kem.PrivateKey) {
	pk, sk := s.Scheme.DeriveKeyPair(seed)
	return s.wrapPublic(pk), s.wrapPrivate(sk)
}

func (s *servedScheme) Encapsulate(pk kem.PublicKey) (ct, ss []byte, err error) {
	var seed [ctruprime.SeedSize]byte
	rand.Read(seed[:])
	defer clear(seed[:])
	return s.EncapsulateDeterministically(pk, seed[:])
}

func (s *servedScheme) EncapsulateDeterministically(pk kem.PublicKey, seed []byte) (ct, ss []byte, err error) {
	if len(seed) != s.EncapsulationSeedSize() {
		return nil, nil, kem.ErrSeedSize
	}
	key, err := s.publicKey(pk)
	if err != nil {
		return nil, nil, err
	}
	return split(s.CiphertextSize())(s.p.do(context.Background(),
		request{op: opEncapsulate, scheme: s.Scheme, publicKey: key, own: seed}))
}

func (s *servedScheme) Decapsulate(sk kem.PrivateKey, ct []byte) ([]byte, error) {
	if len(ct) != s.CiphertextSize() {
		return nil, kem.ErrCiphertextSize
	}
	key, err := s.privateKey(sk)
	if err != nil {
		return nil, err
	}
	return s.p.do(context.Background(), request{op: opDecapsulate, scheme: s.Scheme, privateKey: key, peer: ct})
}
