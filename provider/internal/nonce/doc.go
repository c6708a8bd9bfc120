// Package nonce derives the nonces of ECDSA signatures on P-256: RFC 6979,
// section 3.2, with HMAC-SHA-256 and the additional data of section 3.6, which
// the signer draws anew for each signature.
//
// So a nonce is a function of the private key, the digest and fresh randomness.
// Where the randomness is good, two signatures of one digest have nothing in
// common that a fault could be measured against; where it is not, repeats or is
// known, what is left is RFC 6979, and the nonce still is as secret as the key.
//
// The package knows numbers in bytes: it must know neither keys in other forms
// nor who computes signatures.
package nonce
