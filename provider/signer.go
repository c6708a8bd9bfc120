package provider

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctrutls/ctrutls/provider/internal/nonce"
)

// MaxSigningKeys is the most Signers whose signatures GPUs make.
const MaxSigningKeys = 256

// digestSize is the size in bytes of the digests that devices sign: a SHA-256's.
const digestSize = 32

// maxSignatureSize is the most bytes of an ECDSA-Sig-Value on P-256 in DER (RFC
// 3279, section 2.2.3): a sequence of two integers of 33 bytes.
const maxSignatureSize = 2 + 2*(2+33)

// A Signer is an ECDSA private key on P-256 whose signatures a Provider makes: a
// crypto.Signer for the certificate of a TLS server. It may be used concurrently.
type Signer struct {
	p   *Provider
	key *signingKey
}

// A signingKey is a private key in the forms that engines need.
type signingKey struct {
	private *ecdsa.PrivateKey
	number  []byte // the private key, big-endian

	device  atomic.Value // what an engine has made of it for its devices, if anything
	refused atomic.Int64 // when there was no room for it: nanoseconds since 1970; 0: never

	keyLoad // for a router
}

// adoptAgain is how long a key for which there was no room waits.
const adoptAgain = time.Minute

// Signer returns a crypto.Signer for key, which must be on P-256, so that
// signatures are made as key exchanges are: by the CPU, or in batches by GPUs where
// GPU.Sign is set. GPUs get to know a key when it is first in demand under a load
// that is theirs: that takes some 50 ms, during which the CPU signs, and from then
// on a copy of the key is held in memory until the Signer is garbage. SECURITY.md
// says where else the key goes. GPUs serve MaxSigningKeys keys at a time, and none
// in FIPS 140 mode; with any other key the CPU signs.
func (p *Provider) Signer(key *ecdsa.PrivateKey) (*Signer, error) {
	number, err := p256Number(key)
	if err != nil {
		return nil, err
	}
	k := &signingKey{private: key, number: number}
	runtime.AddCleanup(k, func(copied []byte) { clear(copied) }, number)
	return &Signer{p, k}, nil
}

// p256Number returns a key on P-256 as a number, or says what is wrong with it.
func p256Number(key *ecdsa.PrivateKey) ([]byte, error) {
	if key == nil || key.Curve == nil {
		return nil, errors.New("provider: Signer needs an ECDSA private key")
	}
	if key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("provider: Signer needs a key on P-256, not on %s; use that key as it is", key.Curve.Params().Name)
	}
	number, err := key.Bytes()
	if err != nil {
		return nil, fmt.Errorf("provider: Signer: %w", err)
	}
	// A device checks signatures by the public key: it must be this key's.
	same, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), number)
	if err != nil {
		return nil, fmt.Errorf("provider: Signer: %w", err)
	}
	if !same.PublicKey.Equal(&key.PublicKey) {
		return nil, errors.New("provider: Signer: the private key does not belong to the public key beside it")
	}
	return number, nil
}

// Public returns the public key, an *ecdsa.PublicKey.
func (s *Signer) Public() crypto.PublicKey { return &s.key.private.PublicKey }

// Sign signs a digest and returns an ECDSA-Sig-Value in DER. Every digest of 32
// bytes, such as SHA-256's, may be signed by a GPU, as long as the Provider is open;
// others, and those with a nil random, which asks for the deterministic signature,
// are left to crypto/ecdsa. Of random nothing is read: randomness comes from
// crypto/rand. A GPU's signature is checked by the GPU before it is used, and any
// fault of its is made good by the CPU.
func (s *Signer) Sign(random io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	return s.sign(random, digest, opts, nil)
}

// SignTimed is Sign, and also says where the time went, if a GPU was meant to sign.
func (s *Signer) SignTimed(random io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, Timing, error) {
	var timing Timing
	signature, err := s.sign(random, digest, opts, &timing)
	return signature, timing, err
}

func (s *Signer) sign(random io.Reader, digest []byte, opts crypto.SignerOpts, timing *Timing) ([]byte, error) {
	if random == nil || len(digest) != digestSize || !s.p.begin() {
		return s.key.private.Sign(random, digest, opts)
	}
	defer s.p.end()
	return s.p.sign(s.key, digest, timing)
}

// sign serves one signature, and notes its Timing unless that is nil. It has no context:
// a device's patience is bounded, and the CPU is quick.
func (p *Provider) sign(key *signingKey, digest []byte, timing *Timing) ([]byte, error) {
	s := signings.Get().(*signing)
	defer s.recycle()
	rand.Read(s.extra[:])
	r := &s.batch[0]
	*r = request{op: opSign, key: key, peer: digest, own: s.extra[:], out: make([]byte, maxSignatureSize), timing: timing}
	p.serve(context.Background(), s.batch[:])
	if r.wanted {
		p.adopt(key)
	}
	if r.err != nil {
		return nil, r.err
	}
	return derOf(r.out), nil
}

// A signing is what a signature takes while it is served.
type signing struct {
	batch [1]request
	extra [nonce.MaxExtra]byte
}

var signings = sync.Pool{New: func() any { return new(signing) }}

func (s *signing) recycle() {
	*s = signing{}
	signings.Put(s)
}

// adopt makes a key known to the devices in the background, one key at a time.
func (p *Provider) adopt(key *signingKey) {
	if time.Since(time.Unix(0, key.refused.Load())) < adoptAgain || !p.adopting.CompareAndSwap(false, true) {
		return
	}
	if !p.begin() {
		p.adopting.Store(false)
		return
	}
	go func() {
		defer p.end()
		defer p.adopting.Store(false)
		if key.device.Load() != nil {
			return
		}
		if err := p.engine.adopt(key); err != nil {
			p.log.Warn("provider: the CPU signs with a key", "because", err)
			key.refused.Store(time.Now().UnixNano())
		}
	}()
}

// signOnCPU carries out a signature by crypto/ecdsa, with a nonce of its own.
func signOnCPU(r *request) error {
	der, err := ecdsa.SignASN1(rand.Reader, r.key.private, r.peer)
	if err != nil {
		return fmt.Errorf("provider: %w", err)
	}
	clear(r.out[copy(r.out, der):])
	return nil
}

// verifies says whether a request's result is a signature of its digest.
func verifies(r *request) bool {
	return ecdsa.VerifyASN1(&r.key.private.PublicKey, r.peer, derOf(r.out))
}

// derOf cuts what follows a signature off: its second byte says how long it is.
func derOf(out []byte) []byte {
	n := 2 + int(out[1])
	return out[:n:n]
}

// putDER writes the signature whose two numbers are given, one after the other
// and 32 bytes each, to out, and zeros behind it.
func putDER(out, numbers []byte) {
	const sequence = 0x30
	n := 2
	n += putInteger(out[n:], numbers[:len(numbers)/2])
	n += putInteger(out[n:], numbers[len(numbers)/2:])
	out[0], out[1] = sequence, byte(n-2)
	clear(out[n:])
}

// putInteger writes an integer that is not negative in DER and returns its length.
func putInteger(out, number []byte) int {
	const integer = 0x02
	for len(number) > 1 && number[0] == 0 {
		number = number[1:]
	}
	sign := int(number[0] >> 7) // a further byte tells it from a negative one
	out[0], out[1], out[2] = integer, byte(sign+len(number)), 0
	return 2 + sign + copy(out[2+sign:], number)
}
