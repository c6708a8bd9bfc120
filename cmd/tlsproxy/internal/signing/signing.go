package signing

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/ctrutls/ctrutls/provider"
)

// Signers are kept by generations: those that were not used in one are forgotten
// with the next, and so, once their certificates are gone, are their keys. One ends
// after some time, or with so many keys.
const (
	generationTime = time.Hour
	generationKeys = 4096
)

// Keys are the signers of a provider. It can be used concurrently.
type Keys struct {
	provider *provider.Provider
	log      *slog.Logger

	mu      sync.Mutex
	current generation
	before  generation
	began   time.Time // the current one
}

type generation map[*ecdsa.PrivateKey]crypto.Signer

// New returns the signers of p, which must stay open as long as GPUs are to sign.
func New(p *provider.Provider, log *slog.Logger) *Keys {
	return &Keys{provider: p, log: log, current: generation{}, began: time.Now()}
}

// Serves reports whether a certificate's key is one that GPUs can sign with: an
// ECDSA key on P-256.
func Serves(cert *tls.Certificate) bool {
	key, ok := cert.PrivateKey.(*ecdsa.PrivateKey)
	return ok && key.Curve == elliptic.P256()
}

// Signature tells of a signature that was made, or was not.
type Signature struct {
	Duration     time.Duration
	Queue, Batch time.Duration // as in provider.Timing
}

// Certificate returns cert with a key that signs by the provider, or cert itself
// if it has no such key. It does not change cert. Each time that the key has signed told
// is called, in the same goroutine.
func (k *Keys) Certificate(cert *tls.Certificate, told func(Signature)) *tls.Certificate {
	if !Serves(cert) {
		return cert
	}
	served := *cert
	signer := k.signer(cert.PrivateKey.(*ecdsa.PrivateKey))
	served.PrivateKey = signer
	if timed, ok := signer.(*provider.Signer); ok {
		served.PrivateKey = telling{timed, told}
	}
	return &served
}

// telling is a signer for one handshake.
type telling struct {
	*provider.Signer
	told func(Signature)
}

// Sign implements crypto.Signer.
func (t telling) Sign(random io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	began := time.Now()
	signature, timing, err := t.SignTimed(random, digest, opts)
	t.told(Signature{time.Since(began), timing.Queue, timing.Batch})
	return signature, err
}

// signer returns the signer of a key.
func (k *Keys) signer(key *ecdsa.PrivateKey) crypto.Signer {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); now.Sub(k.began) >= generationTime || len(k.current) == generationKeys {
		k.before, k.current, k.began = k.current, generation{}, now
	}
	signer, ok := k.current[key]
	if ok {
		return signer
	}
	if signer, ok = k.before[key]; !ok {
		signer = k.make(key)
	}
	k.current[key] = signer
	return signer
}

// make makes a signer: the key itself where the provider wants none of it.
func (k *Keys) make(key *ecdsa.PrivateKey) crypto.Signer {
	signer, err := k.provider.Signer(key)
	if err != nil {
		k.log.Warn("a certificate's key signs on the CPU only", "err", err)
		return key
	}
	return signer
}
