package provider

import (
	"context"
	"crypto/ecdh"
	"time"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// x25519Size is the size in bytes of an X25519 private key, public key and
// shared secret (RFC 7748, section 5).
const x25519Size = 32

// operation is what a request asks for.
type operation uint8

const (
	opGenerateKey operation = iota
	opEncapsulate
	opDecapsulate
	opServerExchange
	opClientFinish
	operations // of a parameter set

	opSign = operations // of none
)

func (op operation) String() string {
	return [...]string{"generate-key", "encapsulate", "decapsulate", "server-exchange", "client-finish", "sign"}[op]
}

// request is one operation. Everything an engine needs is in it, randomness
// included, so that every engine gives the same bytes:
//
//	                  peer                own                    out
//	opGenerateKey     -                   seed || z (64)         secret key
//	opEncapsulate     public key          seed (32)              ct || shared key (32)
//	opDecapsulate     ct                  secret key             shared key (32)
//	opServerExchange  x25519 || pk        x25519 private || seed x25519 || ct || secret (64)
//	                                      or x, and seed
//	opClientFinish    x25519 || ct        secret key, and x      secret (64)
//	opSign            digest (32)         randomness (32), and key   signature in DER, then zeros (72)
//
// opSign is apart: it has no scheme, a device's nonce is made of all that is in the
// request, and the CPU's is crypto/ecdsa's own, so that signatures differ.
//
// The caller has checked the length of peer and own, and has made out of
// exactly outSize bytes. Where publicKey or privateKey is set it is the parsed
// form of the KEM key named in the table, which then need not be there packed.
type request struct {
	op         operation
	scheme     *ctruprime.Scheme
	peer       []byte
	own        []byte
	x          *ecdh.PrivateKey
	key        *signingKey
	publicKey  *ctruprime.PublicKey
	privateKey *ctruprime.PrivateKey
	out        []byte
	err        error
	timing     *Timing // nil: nobody asks
	device     bool    // a device made the result
	wanted     bool    // a device would have, had the engine adopted the key

	// fresh says that own is random and nobody else has it, so that an opServerExchange
	// may as well be done with an X25519 key that was made ahead, which took so long.
	fresh bool
	ahead time.Duration
}

// kemParts returns where the parts of a request's KEM operation lie: the public
// key, the seed, the ciphertext and the shared key, as far as the operation has
// them. A part that the request has only parsed is nil.
func kemParts(r *request) (pk, seed, ct, ss []byte) {
	n := r.scheme.CiphertextSize()
	switch r.op {
	case opEncapsulate:
		return r.peer, r.own, r.out[:n], r.out[n:]
	case opDecapsulate:
		return nil, nil, r.peer, r.out
	case opServerExchange:
		return r.peer[x25519Size:], r.own[x25519Size:], r.out[x25519Size : x25519Size+n], r.out[x25519Size+n+x25519Size:]
	case opClientFinish:
		return nil, nil, r.peer[x25519Size:], r.out[x25519Size:]
	}
	return nil, nil, nil, nil
}

// x25519Secret returns where a server's X25519 secret lies in the result.
func x25519Secret(r *request) []byte {
	return r.out[x25519Size+r.scheme.CiphertextSize():][:x25519Size]
}

// outSize is the length in bytes of an operation's result.
func outSize(op operation, s *ctruprime.Scheme) int {
	switch op {
	case opGenerateKey:
		return s.PrivateKeySize()
	case opEncapsulate:
		return s.CiphertextSize() + s.SharedKeySize()
	case opDecapsulate:
		return s.SharedKeySize()
	case opServerExchange:
		return x25519Size + s.CiphertextSize() + x25519Size + s.SharedKeySize()
	case opClientFinish:
		return x25519Size + s.SharedKeySize()
	case opSign:
		return maxSignatureSize
	}
	panic("provider: unknown operation")
}

// engine carries out requests. It is the one seam between the calls of a
// Provider and whatever serves them.
type engine interface {
	name() string
	// serve carries out every request of the batch and sets its err. It returns
	// when all are done or ctx has ended; a request that was not carried out by
	// then has ctx's cause for its err. Once serve has returned, the engine
	// touches no memory of the batch any more. serve may be called concurrently.
	serve(ctx context.Context, batch []request)
	// keyGroup is how many key generations it carries out best at once.
	keyGroup() int
	// stats adds what the engine knows to a snapshot.
	stats(*Stats)
	// bulk carries out a Bulk that was checked, of whose rows it has the seeder fill
	// in the seeds.
	bulk(ctx context.Context, b *Bulk, s *seeder) (bulkCounts, error)
	// pin returns memory for Bulks, and install makes keys ready for them.
	pin(n int) (*Pinned, error)
	install(k *BulkKeys) error
	// adopt makes a key of opSign known to the devices. Until then the CPU signs, and
	// the engine sets wanted where they would.
	adopt(k *signingKey) error
	// close waits for no request: the Provider calls it when no serve is running.
	close()
}
