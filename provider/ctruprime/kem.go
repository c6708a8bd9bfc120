package ctruprime

import (
	"crypto/sha3"
	"crypto/subtle"
)

// The KEM: the Fujisaki-Okamoto transform of the encryption scheme with
// implicit rejection, over packed keys' transforms. Lengths have been checked
// by the callers.

// encapsulate sets ct and ss from the seed, for the public key whose first
// keyIDSize packed bytes are id and whose transform is h.
func (p *parameters) encapsulate(ct, ss, id []byte, h spectrum, seed []byte, w *workspace) {
	w.expand(w.message, seed)
	w.deriveKey(id)
	w.expand(w.coins[:p.coinSize], w.digest[SharedKeySize:])
	p.encrypt(ct, h, w)
	copy(ss, w.digest[:SharedKeySize])
}

// deriveKey sets w.digest to the shared key and the seed of the coins that
// belong to w.message.
func (w *workspace) deriveKey(id []byte) {
	n := copy(w.hashed, id[:keyIDSize])
	n += copy(w.hashed[n:], w.message)
	w.digest = sha3.Sum512(w.hashed[:n])
}

// decapsulate sets ss to the shared key of ct. If ct is not what encapsulation
// makes of the message in it, that is a hash of the secret z and of ct.
func (p *parameters) decapsulate(ss, id, z []byte, f, h spectrum, ct []byte, w *workspace) {
	p.decrypt(ct, f, w)
	w.deriveKey(id)
	w.expand(w.coins[:p.coinSize], w.digest[SharedKeySize:])
	p.encrypt(w.again, h, w)

	n := copy(w.hashed, id[:keyIDSize])
	n += copy(w.hashed[n:], z)
	n += copy(w.hashed[n:], ct)
	w.reject = sha3.Sum512(w.hashed[:n])

	same := subtle.ConstantTimeCompare(ct, w.again)
	copy(ss, w.reject[:SharedKeySize])
	subtle.ConstantTimeCopy(same, ss, w.digest[:SharedKeySize])
}
