package ctruprime_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"log"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// Two parties agree on a key through circl's kem.Scheme.
func Example() {
	scheme := ctruprime.ByName("ctru-prime-761")

	// The receiver makes a key pair and publishes the public key.
	publicKey, privateKey, err := scheme.GenerateKeyPair()
	if err != nil {
		log.Fatal(err)
	}
	published, err := publicKey.MarshalBinary()
	if err != nil {
		log.Fatal(err)
	}

	// The sender encapsulates a fresh key to it.
	received, err := scheme.UnmarshalBinaryPublicKey(published)
	if err != nil {
		log.Fatal(err) // not a public key
	}
	ciphertext, sendersKey, err := scheme.Encapsulate(received)
	if err != nil {
		log.Fatal(err)
	}

	// The receiver opens the ciphertext.
	receiversKey, err := scheme.Decapsulate(privateKey, ciphertext)
	if err != nil {
		log.Fatal(err)
	}

	fmt.Println(scheme.Name())
	fmt.Println(len(published), len(ciphertext), len(sendersKey))
	fmt.Println(bytes.Equal(sendersKey, receiversKey))
	// Output:
	// CTRU-Prime-761
	// 1237 952 32
	// true
}

// A server that keeps its buffers makes ephemeral keys in groups and
// encapsulates to packed keys without allocating.
func ExampleScheme_GenerateKeysBytes() {
	scheme := ctruprime.Scheme761()

	// Each key costs a fraction of what it costs alone.
	keys := make([][]byte, ctruprime.MaxKeyGroup)
	seeds := make([][]byte, len(keys))
	for i := range keys {
		keys[i] = make([]byte, scheme.PrivateKeySize())
		seeds[i] = make([]byte, ctruprime.KeySeedSize)
		rand.Read(seeds[i])
	}
	if err := scheme.GenerateKeysBytes(keys, seeds); err != nil {
		log.Fatal(err)
	}

	ciphertext := make([]byte, scheme.CiphertextSize())
	sent, opened := make([]byte, ctruprime.SharedKeySize), make([]byte, ctruprime.SharedKeySize)
	seed := make([]byte, ctruprime.EncapsulationSeedSize)
	for _, key := range keys {
		rand.Read(seed)
		if err := scheme.EncapsulateBytes(ciphertext, sent, scheme.PublicKeyOf(key), seed); err != nil {
			log.Fatal(err)
		}
		if err := scheme.DecapsulateBytes(opened, key, ciphertext); err != nil {
			log.Fatal(err)
		}
		if !bytes.Equal(sent, opened) {
			log.Fatal("another key")
		}
	}
	fmt.Println(len(keys), "keys agree")
	// Output: 32 keys agree
}

// A ciphertext that was changed on the way yields another key, and no error:
// what uses the keys fails, without a hint to the sender.
func ExampleScheme_Decapsulate() {
	scheme := ctruprime.Scheme761()
	publicKey, privateKey, err := scheme.GenerateKeyPair()
	if err != nil {
		log.Fatal(err)
	}
	ciphertext, sent, err := scheme.Encapsulate(publicKey)
	if err != nil {
		log.Fatal(err)
	}
	ciphertext[100] ^= 1
	opened, err := scheme.Decapsulate(privateKey, ciphertext)
	fmt.Println(len(opened), bytes.Equal(sent, opened), err)
	// Output: 32 false <nil>
}
