package ctruprime

import (
	"crypto/sha3"
	"crypto/subtle"
	"encoding/binary"
)

// The KEM: the Fujisaki-Okamoto transform of the encryption scheme with
// implicit rejection, over packed keys' transforms. Lengths have been checked
// by the callers.

// An encapsulation sets ct and ss from the seed, for the public key whose first
// keyIDSize packed bytes begin id and whose transform is h.
type encapsulation struct {
	ct, ss, id, seed []byte
	h                spectrum
	w                *workspace
}

// A decapsulation sets ss to the shared key of ct, for the private key with the
// transform f and z, and its public key. If ct is not what encapsulation makes
// of the message in it, that is a hash of the secret z and of ct.
type decapsulation struct {
	ss, id, z, ct []byte
	f, h          spectrum
	w             *workspace
}

func (p *parameters) encapsulate(ct, ss, id []byte, h spectrum, seed []byte, w *workspace) {
	if p.vector != nil {
		p.encapsulateLanes([]encapsulation{{ct, ss, id, seed, h, w}})
		return
	}
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

func (p *parameters) decapsulate(ss, id, z []byte, f, h spectrum, ct []byte, w *workspace) {
	if p.vector != nil {
		p.decapsulateLanes([]decapsulation{{ss, id, z, ct, f, h, w}})
		return
	}
	p.decrypt(ct, f, w)
	w.deriveKey(id)
	w.expand(w.coins[:p.coinSize], w.digest[SharedKeySize:])

	n := copy(w.hashed, id[:keyIDSize])
	n += copy(w.hashed[n:], z)
	n += copy(w.hashed[n:], ct)
	w.reject = sha3.Sum512(w.hashed[:n])
	p.choose(ss, ct, h, w)
}

// choose sets ss to the shared key in w.digest if ct is the encryption of
// w.message under the public key with the transform h, and to that in w.reject
// if not.
func (p *parameters) choose(ss, ct []byte, h spectrum, w *workspace) {
	p.encrypt(w.again, h, w)
	same := p.equal(ct, w.again)
	copy(ss, w.reject[:SharedKeySize])
	subtle.ConstantTimeCopy(same, ss, w.digest[:SharedKeySize])
}

// equal returns 1 if two ciphertexts, of the same length of 32 bytes or more, are
// the same, and 0 otherwise, in a time that depends on the length alone. It is
// subtle.ConstantTimeCompare by more than a byte at a time.
func (p *parameters) equal(a, b []byte) int {
	var x uint64
	if p.vector != nil {
		x = p.vector.difference(a, b)
	} else {
		x = difference(a, b)
	}
	return int(1 ^ (x|-x)>>63)
}

// difference returns zero if a and b, of the same length of eight bytes or more,
// are the same.
func difference(a, b []byte) (x uint64) {
	for i := 0; i+8 <= len(a) && i+8 <= len(b); i += 8 {
		x |= binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:])
	}
	// The last eight bytes again, whatever the length.
	last := len(a) - 8
	return x | (binary.LittleEndian.Uint64(a[last:]) ^ binary.LittleEndian.Uint64(b[last:]))
}
