package ctruprime

import (
	"errors"
	"fmt"

	"github.com/cloudflare/circl/kem"
)

// The errors of this package, for errors.Is. Each also matches the error of
// circl's package kem that it names. Those that come with a packed key or a
// ciphertext are the fault of whoever sent it.
var (
	// ErrPublicKeySize is returned for a packed public key of a wrong length.
	ErrPublicKeySize = fmt.Errorf("ctruprime: %w", kem.ErrPubKeySize)

	// ErrPublicKey is returned for a packed public key of the right length
	// that no key packs to: a coefficient is q or more, or padding is not
	// zero.
	ErrPublicKey = fmt.Errorf("ctruprime: %w: a coefficient is not below q or the padding is not zero", kem.ErrPubKey)

	// ErrPrivateKeySize is returned for a packed private key of a wrong
	// length.
	ErrPrivateKeySize = fmt.Errorf("ctruprime: %w", kem.ErrPrivKeySize)

	// ErrPrivateKey is returned for a packed private key of the right length
	// of which a secret coefficient is out of range, padding is not zero, or
	// the public key inside is invalid. A coefficient in range but of a parity
	// that no generated key has is not found.
	ErrPrivateKey = fmt.Errorf("ctruprime: %w: a coefficient is out of range or the padding is not zero", kem.ErrPrivKey)

	// ErrWiped is returned when a private key is used after PrivateKey.Wipe.
	ErrWiped = fmt.Errorf("ctruprime: %w: it has been wiped", kem.ErrPrivKey)

	// ErrCiphertextSize is returned for a ciphertext, or a buffer for one, of
	// a wrong length. No other ciphertext is an error: one that was tampered
	// with yields a key that its sender does not know.
	ErrCiphertextSize = fmt.Errorf("ctruprime: %w", kem.ErrCiphertextSize)

	// ErrSeedSize is returned for a seed of a wrong length.
	ErrSeedSize = fmt.Errorf("ctruprime: %w", kem.ErrSeedSize)

	// ErrSharedKeySize is returned for a shared-key buffer that is not
	// SharedKeySize bytes long.
	ErrSharedKeySize = errors.New("ctruprime: wrong size for shared key")

	// ErrTypeMismatch is returned for a key of another scheme.
	ErrTypeMismatch = fmt.Errorf("ctruprime: %w: the key belongs to another scheme", kem.ErrTypeMismatch)
)

// checkSize returns nil if got is want, and otherwise an error that wraps err
// and says both.
func (p *parameters) checkSize(err error, got, want int) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("%w: %s takes %d bytes, got %d", err, p.name, want, got)
}
