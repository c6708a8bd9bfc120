// Package clienthello reads and writes TLS ClientHello messages (RFC 8446,
// section 4.1.2) byte by byte, the malformed ones included: it lets a test say
// what crypto/tls never would, and lets a client tell which key shares it sent.
// It reads just enough of the server's first flight to see how it answered.
//
// It knows the wire format only: no key exchange, no keys, no connection.
package clienthello
