package provider

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"slices"
	"strings"

	"github.com/cloudflare/circl/kem"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

const (
	// HybridKeySeedSize is the size in bytes of the seed that a hybrid's
	// DeriveKeyPair takes: x25519 private || KEM seed || z.
	HybridKeySeedSize = x25519Size + ctruprime.KeySeedSize
	// HybridEncapsulationSeedSize is the size in bytes of the seed that a
	// hybrid's EncapsulateDeterministically takes: ephemeral x25519 private ||
	// KEM seed.
	HybridEncapsulationSeedSize = x25519Size + ctruprime.SeedSize
)

// HybridName returns the name of the hybrid of X25519 with a parameter set:
// "X25519CTRUPrime761" for "CTRU-Prime-761". It is the TLS group's name too.
func HybridName(s *ctruprime.Scheme) string {
	return "X25519" + strings.ReplaceAll(s.Name(), "-", "")
}

// Hybrids returns X25519CTRUPrime653, X25519CTRUPrime761 and
// X25519CTRUPrime1277 as circl kem.Schemes that the Provider serves. Public
// keys, ciphertexts and shared keys are the TLS groups' client shares, server
// shares and secrets, byte for byte: x25519 || KEM. A private key is x25519
// private || packed KEM secret key.
//
// The concatenation is a secret for a key schedule that binds the transcript,
// as TLS 1.3's does (RFC 8446, section 7.1; draft-ietf-tls-hybrid-design).
// Elsewhere, hash it together with the ciphertext and the public key.
func (p *Provider) Hybrids() []kem.Scheme {
	schemes := make([]kem.Scheme, len(p.schemes))
	for i, s := range p.schemes {
		schemes[i] = &hybridScheme{&servedScheme{s, p}}
	}
	return schemes
}

type hybridScheme struct{ kem *servedScheme }

type hybridPublicKey struct {
	scheme *hybridScheme
	share  []byte // x25519 || packed KEM key
	pk     *ctruprime.PublicKey
}

type hybridPrivateKey struct {
	scheme *hybridScheme
	x      *ecdh.PrivateKey
	sk     *ctruprime.PrivateKey
}

func (h *hybridScheme) Name() string               { return HybridName(h.kem.Scheme) }
func (h *hybridScheme) PublicKeySize() int         { return x25519Size + h.kem.PublicKeySize() }
func (h *hybridScheme) PrivateKeySize() int        { return x25519Size + h.kem.PrivateKeySize() }
func (h *hybridScheme) CiphertextSize() int        { return x25519Size + h.kem.CiphertextSize() }
func (h *hybridScheme) SharedKeySize() int         { return x25519Size + h.kem.SharedKeySize() }
func (h *hybridScheme) SeedSize() int              { return HybridKeySeedSize }
func (h *hybridScheme) EncapsulationSeedSize() int { return HybridEncapsulationSeedSize }

func (k *hybridPublicKey) Scheme() kem.Scheme { return k.scheme }
func (k *hybridPublicKey) MarshalBinary() ([]byte, error) {
	return append([]byte(nil), k.share...), nil
}
func (k *hybridPublicKey) Equal(o kem.PublicKey) bool {
	other, ok := o.(*hybridPublicKey)
	return ok && subtle.ConstantTimeCompare(k.share, other.share) == 1
}

func (k *hybridPrivateKey) Scheme() kem.Scheme { return k.scheme }
func (k *hybridPrivateKey) MarshalBinary() ([]byte, error) {
	sk, err := k.sk.MarshalBinary()
	if err != nil {
		return nil, err
	}
	x := k.x.Bytes()
	defer clear(sk)
	defer clear(x)
	return slices.Concat(x, sk), nil
}
func (k *hybridPrivateKey) Equal(o kem.PrivateKey) bool {
	other, ok := o.(*hybridPrivateKey)
	return ok && k.x.Equal(other.x) && k.sk.Equal(other.sk)
}
func (k *hybridPrivateKey) Public() kem.PublicKey {
	return k.scheme.public(k.x, k.sk.Public().(*ctruprime.PublicKey))
}

func (h *hybridScheme) public(x *ecdh.PrivateKey, pk *ctruprime.PublicKey) *hybridPublicKey {
	packed, err := pk.MarshalBinary()
	if err != nil {
		panic("provider: a parsed public key does not pack: " + err.Error())
	}
	return &hybridPublicKey{h, append(x.PublicKey().Bytes(), packed...), pk}
}

func (h *hybridScheme) UnmarshalBinaryPublicKey(b []byte) (kem.PublicKey, error) {
	if len(b) != h.PublicKeySize() {
		return nil, kem.ErrPubKeySize
	}
	pk, err := h.kem.Scheme.UnmarshalBinaryPublicKey(b[x25519Size:])
	if err != nil {
		return nil, err
	}
	return &hybridPublicKey{h, append([]byte(nil), b...), pk.(*ctruprime.PublicKey)}, nil
}

func (h *hybridScheme) UnmarshalBinaryPrivateKey(b []byte) (kem.PrivateKey, error) {
	if len(b) != h.PrivateKeySize() {
		return nil, kem.ErrPrivKeySize
	}
	x, err := ecdh.X25519().NewPrivateKey(b[:x25519Size])
	if err != nil {
		return nil, fmt.Errorf("provider: %s private key: %w", h.Name(), err)
	}
	sk, err := h.kem.Scheme.UnmarshalBinaryPrivateKey(b[x25519Size:])
	if err != nil {
		return nil, err
	}
	return &hybridPrivateKey{h, x, sk.(*ctruprime.PrivateKey)}, nil
}

func (h *hybridScheme) GenerateKeyPair() (kem.PublicKey, kem.PrivateKey, error) {
	x, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	_, served, err := h.kem.GenerateKeyPair()
	if err != nil {
		return nil, nil, err
	}
	sk := &hybridPrivateKey{h, x, served.(*servedPrivateKey).PrivateKey}
	return sk.Public(), sk, nil
}

// DeriveKeyPair panics with kem.ErrSeedSize where seed is not SeedSize bytes,
// and where crypto/ecdh refuses X25519 (FIPS 140-only mode).
func (h *hybridScheme) DeriveKeyPair(seed []byte) (kem.PublicKey, kem.PrivateKey) {
	if len(seed) != h.SeedSize() {
		panic(kem.ErrSeedSize)
	}
	x, err := ecdh.X25519().NewPrivateKey(seed[:x25519Size])
	if err != nil {
		panic(err)
	}
	_, k := h.kem.Scheme.DeriveKeyPair(seed[x25519Size:])
	sk := &hybridPrivateKey{h, x, k.(*ctruprime.PrivateKey)}
	return sk.Public(), sk
}

func (h *hybridScheme) Encapsulate(pk kem.PublicKey) (ct, ss []byte, err error) {
	var seed [HybridEncapsulationSeedSize]byte
	rand.Read(seed[:])
	defer clear(seed[:])
	return h.EncapsulateDeterministically(pk, seed[:])
}

func (h *hybridScheme) EncapsulateDeterministically(pk kem.PublicKey, seed []byte) (ct, ss []byte, err error) {
	if len(seed) != h.EncapsulationSeedSize() {
		return nil, nil, kem.ErrSeedSize
	}
	key, ok := pk.(*hybridPublicKey)
	if !ok || key.scheme.kem.Scheme != h.kem.Scheme {
		return nil, nil, kem.ErrTypeMismatch
	}
	return h.kem.p.serverExchange(context.Background(), request{op: opServerExchange, scheme: h.kem.Scheme, peer: key.share, own: seed, publicKey: key.pk})
}

func (h *hybridScheme) Decapsulate(sk kem.PrivateKey, ct []byte) ([]byte, error) {
	if len(ct) != h.CiphertextSize() {
		return nil, kem.ErrCiphertextSize
	}
	key, ok := sk.(*hybridPrivateKey)
	if !ok || key.scheme.kem.Scheme != h.kem.Scheme {
		return nil, kem.ErrTypeMismatch
	}
	return h.kem.p.clientFinish(context.Background(), h.kem.Scheme, key.x, nil, key.sk, ct)
}
