// Package loadgen is a TLS 1.3 client that makes load on any server: handshakes
// with one group, full or resumed, many at once, as fast as they go or at a given
// rate, each on a connection of its own and perhaps followed by requests over
// HTTP/1.1. It uses the processor only, and as little of it as crypto/tls allows:
// a certificate chain is verified once and recognised afterwards, and key pairs of
// CTRU-Prime come from the registered provider's pool. crypto/tls makes an X25519 or
// ML-KEM key pair for each handshake and verifies the server's signature, which is
// most of what is left.
//
// It measures what a client sees and its own processor time. It must not know whose
// server it is, nor how often or in which order it is run: package comparison does.
//
// Serve makes a process of its own of it, so that the server's processor time can be
// told from the client's where both are one program: it does what it reads on its
// input and writes results to its output, a line of JSON each.
package loadgen
