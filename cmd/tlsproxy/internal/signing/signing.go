package signing

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"log/slog"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/ctrutls/ctrutls/provider"
)

// held is how many keys' signers are held ready, those most recently used. A
// signer that is made anew costs a handshake half a signature.
const held = 4096

// Keys are the signers of a provider. It can be used concurrently.
type Keys struct {
	provider *provider.Provider
	log      *slog.Logger
	signers  *lru.Cache[*ecdsa.PrivateKey, crypto.Signer]
}

// New returns the signers of p, which must stay open as long as GPUs are to sign.
func New(p *provider.Provider, log *slog.Logger) (*Keys, error) {
	signers, err := lru.New[*ecdsa.PrivateKey, crypto.Signer](held)
	if err != nil {
		return nil, err
	}
	return &Keys{p, log, signers}, nil
}

// Serves reports whether a certificate's key is one that GPUs can sign with: an
// ECDSA key on P-256.
func Serves(cert *tls.Certificate) bool {
	key, ok := cert.PrivateKey.(*ecdsa.PrivateKey)
	return ok && key.Curve == elliptic.P256()
}

// Certificate returns cert with a key that signs by the provider, or cert itself
// if it has no such key. It does not change cert.
func (k *Keys) Certificate(cert *tls.Certificate) *tls.Certificate {
	if !Serves(cert) {
		return cert
	}
	key := cert.PrivateKey.(*ecdsa.PrivateKey)
	signer, ok := k.signers.Get(key)
	if !ok {
		signer = k.signer(key)
	}
	served := *cert
	served.PrivateKey = signer
	return &served
}

// signer makes and keeps the signer of a key: the key itself where the provider
// wants none of it.
func (k *Keys) signer(key *ecdsa.PrivateKey) crypto.Signer {
	var signer crypto.Signer = key
	if made, err := k.provider.Signer(key); err == nil {
		signer = made
	} else {
		k.log.Warn("a certificate's key signs on the CPU only", "err", err)
	}
	if before, found, _ := k.signers.PeekOrAdd(key, signer); found {
		return before // another handshake came first
	}
	return signer
}
