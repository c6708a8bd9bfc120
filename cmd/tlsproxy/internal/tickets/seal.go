package tickets

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"errors"
)

// A ticket is the id of its key, a salt, and the session under AES-256-GCM with a
// key of its own, derived from both: so no number of tickets wears out a key (NIST
// SP 800-38D, section 8.3).
const (
	idSize   = 8
	saltSize = 16
	keySize  = 32
	// Overhead is by how many bytes a ticket is longer than its session.
	Overhead = idSize + saltSize + nonceSize + tagSize

	nonceSize = 12
	tagSize   = 16
)

// maxSessionBytes bounds what is put into a ticket; it holds the client's
// certificates, and RFC 8446, section 4.6.1, has room for 64 KiB.
const maxSessionBytes = 48 << 10

// Scope is what a ticket is good for.
type Scope [sha256.Size]byte

// key opens the tickets of one period, and seals them while that is the present.
type key struct {
	id     [idSize]byte
	secret [keySize]byte
}

// aead derives what one ticket is sealed with.
func (k *key) aead(salt []byte) (cipher.AEAD, error) {
	own, err := hkdf.Expand(sha256.New, k.secret[:], "tlsproxy ticket"+string(salt), keySize)
	if err != nil {
		return nil, err
	}
	return sealing(own)
}

// sealing seals under a key, which it wipes.
func sealing(key []byte) (cipher.AEAD, error) {
	defer clear(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func (k *key) seal(scope *Scope, session []byte) ([]byte, error) {
	ticket := make([]byte, idSize+saltSize, Overhead+len(session))
	copy(ticket, k.id[:])
	salt := ticket[idSize:]
	rand.Read(salt)
	aead, err := k.aead(salt)
	if err != nil {
		return nil, err
	}
	return aead.Seal(ticket, nil, session, scope[:]), nil
}

// open returns nil for what this key did not seal for this scope.
func (k *key) open(scope *Scope, ticket []byte) []byte {
	aead, err := k.aead(ticket[idSize : idSize+saltSize])
	if err != nil {
		return nil
	}
	session, err := aead.Open(nil, nil, ticket[idSize+saltSize:], scope[:])
	if err != nil {
		return nil
	}
	return session
}

// Seal makes a ticket of a session. One of more than 48 KiB gets a ticket that
// does not open: its client makes a full handshake the next time.
func (r *Keys) Seal(scope *Scope, session []byte) ([]byte, error) {
	ring, err := r.ring()
	if err != nil {
		return nil, err
	}
	if len(session) > maxSessionBytes {
		useless := make([]byte, Overhead)
		rand.Read(useless)
		return useless, nil
	}
	return ring.keys[ring.present].seal(scope, session)
}

// Open returns the session within a ticket, nil if it is not one that was sealed
// for this scope, or if its key is not held any more.
func (r *Keys) Open(scope *Scope, ticket []byte) []byte {
	ring, err := r.ring()
	if err != nil || len(ticket) < Overhead {
		return nil
	}
	for i := range ring.keys {
		if string(ring.keys[i].id[:]) == string(ticket[:idSize]) {
			return ring.keys[i].open(scope, ticket)
		}
	}
	return nil
}

var errSession = errors.New("tickets: a session that crypto/tls cannot write")

// Use makes a server's policy use r, for sessions of what scope returns for a
// connection. Like Seal and Open it can be used concurrently; c must not be in use
// yet. Early data is not offered.
func (r *Keys) Use(c *tls.Config, scope func(tls.ConnectionState) *Scope) {
	c.WrapSession = func(cs tls.ConnectionState, session *tls.SessionState) ([]byte, error) {
		session.EarlyData = false
		state, err := session.Bytes()
		if err != nil {
			return nil, errSession
		}
		defer clear(state)
		return r.Seal(scope(cs), state)
	}
	c.UnwrapSession = func(ticket []byte, cs tls.ConnectionState) (*tls.SessionState, error) {
		state := r.Open(scope(cs), ticket)
		if state == nil {
			return nil, nil
		}
		session, err := tls.ParseSessionState(state) // which keeps parts of state
		if err != nil {
			return nil, nil // of another version of crypto/tls; a full handshake follows
		}
		session.EarlyData = false
		return session, nil
	}
}
