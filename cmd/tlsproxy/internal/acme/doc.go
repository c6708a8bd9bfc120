// Package acme has certificates issued by an authority that speaks ACME (RFC 8555),
// and renewed before they expire. It answers the challenge tls-alpn-01 (RFC 8737)
// in the handshakes that it is shown, so it needs no port of its own.
//
// Protocol, storage, retries, renewal and OCSP responses are certmagic's. The
// package knows no configuration and no hosts.
package acme
