package provider_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"fmt"

	"github.com/ctrutls/ctrutls/provider"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// One key exchange with the KEM alone.
func Example() {
	p, err := provider.Open(provider.Config{})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	ctx, s := context.Background(), ctruprime.Scheme761()

	sk, err := p.GenerateKey(ctx, s)
	if err != nil {
		panic(err)
	}
	defer clear(sk)
	ct, sent, err := p.Encapsulate(ctx, s, s.PublicKeyOf(sk))
	if err != nil {
		panic(err)
	}
	received, err := p.Decapsulate(ctx, s, sk, ct)
	if err != nil {
		panic(err)
	}
	fmt.Println(len(ct), bytes.Equal(sent, received))
	// Output: 952 true
}

// A TLS server whose signatures GPUs make, where there are any and under load.
func ExampleProvider_Signer() {
	p, err := provider.Open(provider.Config{Engine: provider.EngineAuto, GPU: provider.GPU{Sign: true}})
	if err != nil {
		panic(err)
	}
	defer p.Close()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader) // or from a file
	if err != nil {
		panic(err)
	}
	signer, err := p.Signer(key)
	if err != nil {
		panic(err)
	}
	certificate := tls.Certificate{PrivateKey: signer} // and Certificate, its chain

	digest := sha256.Sum256([]byte("what a handshake has signed"))
	signature, err := certificate.PrivateKey.(crypto.Signer).Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		panic(err)
	}
	fmt.Println(ecdsa.VerifyASN1(&key.PublicKey, digest[:], signature))
	// Output: true
}

// The hybrid as a circl kem.Scheme, for protocols other than TLS.
func ExampleProvider_SchemeByName() {
	p, err := provider.Open(provider.Config{})
	if err != nil {
		panic(err)
	}
	defer p.Close()

	h := p.SchemeByName("x25519ctruprime761")
	pk, sk, err := h.GenerateKeyPair()
	if err != nil {
		panic(err)
	}
	ct, sent, err := h.Encapsulate(pk)
	if err != nil {
		panic(err)
	}
	received, err := h.Decapsulate(sk, ct)
	if err != nil {
		panic(err)
	}
	fmt.Println(h.Name(), len(ct), len(sent), bytes.Equal(sent, received))
	// Output: X25519CTRUPrime761 984 64 true
}
