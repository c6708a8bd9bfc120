package ctruprime

import (
	"crypto/rand"
	"crypto/subtle"

	"github.com/cloudflare/circl/kem"
)

// Scheme is one parameter set of CTRU-Prime. It implements circl's kem.Scheme
// and has forms beside that which write into the caller's buffers and allocate
// nothing. It is immutable and safe for concurrent use.
type Scheme struct {
	parameters
	pools pools
}

var _ kem.Scheme = (*Scheme)(nil)

func newScheme(p parameters) *Scheme { return newSchemeFor(p, bestLevel()) }

// newSchemeFor returns a scheme that uses the instructions of a level, or
// portable code if the processor or the build lacks them.
func newSchemeFor(p parameters, level Level) *Scheme {
	s := &Scheme{parameters: p}
	s.vector = newVectorized(&s.parameters, level)
	return s
}

// Scheme653 returns CTRU-Prime-653: public key 1062 bytes, ciphertext 898.
func Scheme653() *Scheme { return scheme653 }

// Scheme761 returns CTRU-Prime-761, the default choice: public key 1237 bytes,
// ciphertext 952.
func Scheme761() *Scheme { return scheme761 }

// Scheme1277 returns CTRU-Prime-1277: public key 2076 bytes, ciphertext 1597.
// A decryption fails with a probability of up to 2^-92, high for its security
// level: use it with keys that serve one exchange, as TLS does, and not with
// static ones.
func Scheme1277() *Scheme { return scheme1277 }

// All returns the three sets, smallest first.
func All() []kem.Scheme {
	all := make([]kem.Scheme, len(allSchemes))
	for i, s := range allSchemes {
		all[i] = s
	}
	return all
}

// ByName returns the set of that name in any case, such as "CTRU-Prime-761",
// or nil if there is none.
func ByName(name string) kem.Scheme {
	if s := lookup(name); s != nil {
		return s
	}
	return nil
}

// Name returns the name of the set, such as "CTRU-Prime-761".
func (s *Scheme) Name() string { return s.name }

// PublicKeySize returns the length in bytes of a packed public key.
func (s *Scheme) PublicKeySize() int { return s.publicKeySize }

// PrivateKeySize returns the length in bytes of a packed private key: the
// secret polynomial, the packed public key, then z.
func (s *Scheme) PrivateKeySize() int { return s.privateKeySize }

// CiphertextSize returns the length in bytes of a ciphertext.
func (s *Scheme) CiphertextSize() int { return s.ciphertextSize }

// SharedKeySize returns the length in bytes of a shared key, 32.
func (s *Scheme) SharedKeySize() int { return SharedKeySize }

// SeedSize returns the length in bytes of the seed of DeriveKeyPair, 64.
func (s *Scheme) SeedSize() int { return KeySeedSize }

// EncapsulationSeedSize returns the length in bytes of the seed of
// EncapsulateDeterministically, 32.
func (s *Scheme) EncapsulationSeedSize() int { return EncapsulationSeedSize }

// GenerateKeyPair returns a fresh key pair. The error is always nil.
func (s *Scheme) GenerateKeyPair() (kem.PublicKey, kem.PrivateKey, error) {
	var seed [KeySeedSize]byte
	rand.Read(seed[:])
	pk, sk := s.DeriveKeyPair(seed[:])
	clear(seed[:])
	return pk, sk, nil
}

// DeriveKeyPair returns the key pair of a seed of 64 bytes: 32 that the secret
// polynomials are expanded from, then z. It panics with kem.ErrSeedSize if the
// seed has another length.
func (s *Scheme) DeriveKeyPair(seed []byte) (kem.PublicKey, kem.PrivateKey) {
	if len(seed) != KeySeedSize {
		panic(kem.ErrSeedSize)
	}
	packed := make([]byte, s.privateKeySize)
	s.generateKey(packed, seed)
	sk, err := s.parsePrivateKey(packed)
	if err != nil {
		panic("ctruprime: a generated key is invalid: " + err.Error())
	}
	return sk.public, sk
}

// Encapsulate makes a fresh shared key and returns it with the ciphertext that
// carries it to the holder of pk's private key. pk must be a key of s.
func (s *Scheme) Encapsulate(pk kem.PublicKey) (ct, ss []byte, err error) {
	key, err := s.own(pk)
	if err != nil {
		return nil, nil, err
	}
	w := s.borrow()
	defer s.giveBack(w)
	rand.Read(w.seed[:])
	ct, ss = make([]byte, s.ciphertextSize), make([]byte, SharedKeySize)
	s.encapsulate(ct, ss, key.packed, key.h, w.seed[:], w)
	return ct, ss, nil
}

// EncapsulateDeterministically is Encapsulate with a seed of 32 bytes, which
// must be uniform, secret, and used once.
func (s *Scheme) EncapsulateDeterministically(pk kem.PublicKey, seed []byte) (ct, ss []byte, err error) {
	key, err := s.own(pk)
	if err != nil {
		return nil, nil, err
	}
	ct, ss = make([]byte, s.ciphertextSize), make([]byte, SharedKeySize)
	if err := s.EncapsulateTo(ct, ss, key, seed); err != nil {
		return nil, nil, err
	}
	return ct, ss, nil
}

// Decapsulate returns the shared key that ct carries. A ciphertext of the right
// length that nobody encapsulated yields a key that nobody but the holder of sk
// can compute, and no error. sk must be a key of s.
func (s *Scheme) Decapsulate(sk kem.PrivateKey, ct []byte) ([]byte, error) {
	key, ok := sk.(*PrivateKey)
	if !ok {
		return nil, ErrTypeMismatch
	}
	ss := make([]byte, SharedKeySize)
	if err := s.DecapsulateTo(ss, key, ct); err != nil {
		return nil, err
	}
	return ss, nil
}

// EncapsulateTo is EncapsulateDeterministically into the caller's buffers: ct
// of CiphertextSize bytes and ss of SharedKeySize, which must not overlap each
// other but may overlap seed. It does not allocate. On an error the buffers are
// as they were.
func (s *Scheme) EncapsulateTo(ct, ss []byte, pk *PublicKey, seed []byte) error {
	if pk == nil || pk.scheme != s {
		return ErrTypeMismatch
	}
	if err := s.checkEncapsulation(ct, ss, seed); err != nil {
		return err
	}
	w := s.borrow()
	defer s.giveBack(w)
	s.encapsulate(ct, ss, pk.packed, pk.h, seed, w)
	return nil
}

// EncapsulateBytes is EncapsulateTo with a packed public key, which it
// validates and which ct and ss may overlap too. It does not allocate. A key
// that serves more than once is cheaper parsed.
func (s *Scheme) EncapsulateBytes(ct, ss, pk, seed []byte) error {
	if err := s.checkSize(ErrPublicKeySize, len(pk), s.publicKeySize); err != nil {
		return err
	}
	if err := s.checkEncapsulation(ct, ss, seed); err != nil {
		return err
	}
	w := s.borrow()
	defer s.giveBack(w)
	if !s.unpackPublicKey(w.public, pk) {
		return ErrPublicKey
	}
	s.encapsulate(ct, ss, pk, s.transformOnce(w.room, w.public), seed, w)
	return nil
}

// DecapsulateTo is Decapsulate into the caller's buffer of SharedKeySize bytes,
// which may overlap ct. It does not allocate.
func (s *Scheme) DecapsulateTo(ss []byte, sk *PrivateKey, ct []byte) error {
	if sk == nil || sk.scheme != s {
		return ErrTypeMismatch
	}
	if sk.packed == nil {
		return ErrWiped
	}
	if err := s.checkDecapsulation(ss, ct); err != nil {
		return err
	}
	w := s.borrow()
	defer s.giveBack(w)
	s.decapsulate(ss, sk.public.packed, s.rejectionOf(sk.packed), sk.f, sk.public.h, ct, w)
	return nil
}

// DecapsulateBytes is DecapsulateTo with a packed private key, which it
// validates and which ss may overlap too. It does not allocate.
func (s *Scheme) DecapsulateBytes(ss, sk, ct []byte) error {
	if err := s.checkSize(ErrPrivateKeySize, len(sk), s.privateKeySize); err != nil {
		return err
	}
	if err := s.checkDecapsulation(ss, ct); err != nil {
		return err
	}
	w := s.borrow()
	defer s.giveBack(w)
	if !s.unpackPrivatePoly(w.small, sk[:s.privatePoly]) {
		return ErrPrivateKey
	}
	pk := s.PublicKeyOf(sk)
	if !s.unpackPublicKey(w.public, pk) {
		return ErrPrivateKey
	}
	f, h := s.transformBoth(w)
	s.decapsulate(ss, pk, s.rejectionOf(sk), f, h, ct, w)
	return nil
}

// GenerateKeyBytes sets sk, PrivateKeySize bytes, to the packed private key
// of a seed of 64 bytes as DeriveKeyPair takes. It does not allocate. The seed
// may overlap sk, which then overwrites it.
func (s *Scheme) GenerateKeyBytes(sk, seed []byte) error {
	if err := s.checkKeyGeneration(sk, seed); err != nil {
		return err
	}
	s.generateKey(sk, seed)
	return nil
}

func (s *Scheme) checkKeyGeneration(sk, seed []byte) error {
	if err := s.checkSize(ErrPrivateKeySize, len(sk), s.privateKeySize); err != nil {
		return err
	}
	return s.checkSize(ErrSeedSize, len(seed), KeySeedSize)
}

// generateKey is GenerateKeyBytes for arguments of the right lengths.
func (s *Scheme) generateKey(sk, seed []byte) {
	w, d := s.borrow(), s.borrowDivision()
	defer s.giveBack(w)
	defer s.giveBackDivision(d)
	// The seed may lie in sk, which generate writes.
	copy(w.rejection[:], seed[SeedSize:])
	s.generate(sk, seed[:SeedSize], w, d)
	copy(s.rejectionOf(sk), w.rejection[:])
}

// PublicKeyOf returns the packed public key inside a packed private key: a part
// of the same memory. It panics if sk is shorter than PrivateKeySize bytes.
func (s *Scheme) PublicKeyOf(sk []byte) []byte {
	return sk[s.privatePoly:][:s.publicKeySize:s.publicKeySize]
}

// rejectionOf returns the z inside a packed private key.
func (s *Scheme) rejectionOf(sk []byte) []byte {
	return sk[s.privateKeySize-RejectionSize : s.privateKeySize]
}

func (s *Scheme) checkEncapsulation(ct, ss, seed []byte) error {
	if err := s.checkSize(ErrCiphertextSize, len(ct), s.ciphertextSize); err != nil {
		return err
	}
	if err := s.checkSize(ErrSharedKeySize, len(ss), SharedKeySize); err != nil {
		return err
	}
	return s.checkSize(ErrSeedSize, len(seed), EncapsulationSeedSize)
}

func (s *Scheme) checkDecapsulation(ss, ct []byte) error {
	if err := s.checkSize(ErrCiphertextSize, len(ct), s.ciphertextSize); err != nil {
		return err
	}
	return s.checkSize(ErrSharedKeySize, len(ss), SharedKeySize)
}

// UnmarshalBinaryPublicKey parses and validates a packed public key. The key
// keeps no reference to data.
func (s *Scheme) UnmarshalBinaryPublicKey(data []byte) (kem.PublicKey, error) {
	if err := s.checkSize(ErrPublicKeySize, len(data), s.publicKeySize); err != nil {
		return nil, err
	}
	pk, err := s.parsePublicKey(append([]byte(nil), data...))
	if err != nil {
		return nil, err
	}
	return pk, nil
}

// UnmarshalBinaryPrivateKey parses and validates a packed private key. The key
// keeps no reference to data. Whether the public key inside it belongs to the
// secret polynomial is not checked: with another one every decapsulation
// yields a rejected key. Nor is whether that polynomial is twice another, plus
// one, as those of generated keys are.
func (s *Scheme) UnmarshalBinaryPrivateKey(data []byte) (kem.PrivateKey, error) {
	if err := s.checkSize(ErrPrivateKeySize, len(data), s.privateKeySize); err != nil {
		return nil, err
	}
	sk, err := s.parsePrivateKey(append([]byte(nil), data...))
	if err != nil {
		return nil, err
	}
	return sk, nil
}

// PublicKey is a parsed public key, ready for many encapsulations. It is
// immutable and safe for concurrent use.
type PublicKey struct {
	scheme *Scheme
	packed []byte
	h      spectrum
}

// PrivateKey is a parsed private key, ready for many decapsulations. It is
// immutable but for Wipe, and safe for concurrent use.
type PrivateKey struct {
	scheme *Scheme
	packed []byte // nil once wiped
	f      spectrum
	public *PublicKey
}

// own returns pk as a public key of s.
func (s *Scheme) own(pk kem.PublicKey) (*PublicKey, error) {
	key, ok := pk.(*PublicKey)
	if !ok || key == nil || key.scheme != s {
		return nil, ErrTypeMismatch
	}
	return key, nil
}

// parsePublicKey keeps packed, which has the right length.
func (s *Scheme) parsePublicKey(packed []byte) (*PublicKey, error) {
	w := s.borrow()
	defer s.giveBack(w)
	if !s.unpackPublicKey(w.large, packed) {
		return nil, ErrPublicKey
	}
	pk := &PublicKey{scheme: s, packed: packed, h: s.newKey()}
	s.transform(pk.h, w.large)
	return pk, nil
}

// parsePrivateKey keeps packed, which has the right length, or wipes it.
func (s *Scheme) parsePrivateKey(packed []byte) (*PrivateKey, error) {
	w := s.borrow()
	defer s.giveBack(w)
	if !s.unpackPrivatePoly(w.small, packed[:s.privatePoly]) {
		clear(packed)
		return nil, ErrPrivateKey
	}
	public, err := s.parsePublicKey(append([]byte(nil), s.PublicKeyOf(packed)...))
	if err != nil {
		clear(packed)
		return nil, ErrPrivateKey
	}
	sk := &PrivateKey{scheme: s, packed: packed, f: s.newKey(), public: public}
	s.transform(sk.f, w.small)
	return sk, nil
}

// Scheme returns the parameter set of the key.
func (pk *PublicKey) Scheme() kem.Scheme { return pk.scheme }

// MarshalBinary returns the packed public key. The error is always nil.
func (pk *PublicKey) MarshalBinary() ([]byte, error) {
	return append([]byte(nil), pk.packed...), nil
}

// Equal reports whether other is the same key of the same set.
func (pk *PublicKey) Equal(other kem.PublicKey) bool {
	o, ok := other.(*PublicKey)
	return ok && o != nil && pk.scheme == o.scheme && string(pk.packed) == string(o.packed)
}

// Scheme returns the parameter set of the key.
func (sk *PrivateKey) Scheme() kem.Scheme { return sk.scheme }

// MarshalBinary returns the packed private key, which is a secret. It fails
// with ErrWiped once the key is wiped.
func (sk *PrivateKey) MarshalBinary() ([]byte, error) {
	if sk.packed == nil {
		return nil, ErrWiped
	}
	return append([]byte(nil), sk.packed...), nil
}

// Equal reports, in a time that does not depend on the keys' values, whether
// other is the same key of the same set. A wiped key equals none.
func (sk *PrivateKey) Equal(other kem.PrivateKey) bool {
	o, ok := other.(*PrivateKey)
	return ok && o != nil && sk.scheme == o.scheme && sk.packed != nil &&
		subtle.ConstantTimeCompare(sk.packed, o.packed) == 1
}

// Public returns the public key. It outlives Wipe.
func (sk *PrivateKey) Public() kem.PublicKey { return sk.public }

// Wipe zeroes the key's secrets. It must not run at the same time as anything
// else that uses the key, which returns ErrWiped afterwards.
func (sk *PrivateKey) Wipe() {
	clear(sk.packed)
	clear(sk.f)
	sk.packed = nil
}
