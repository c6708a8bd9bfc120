// Package proxy terminates TLS and hands requests to backends.
//
// A connection is accepted, does its TLS handshake in a goroutine of its own
// and in bounded time, and only then goes to a net/http server, which speaks
// HTTP/1.1 or HTTP/2 with it. So a handshake that fails is logged with what
// the client had offered, one that stalls costs no more than its time-out, and
// every connection is counted from accept to close, upgraded ones included.
// Requests go through httputil.ReverseProxy to the pool that their host and path
// lead to.
//
// A listener can be for proxies in front, which tell by a PROXY header who their
// clients are. That header is read in the connection's own goroutine, and what
// counts by client counts from then on.
//
// A host can also be in mode tcp, where the bytes within TLS are relayed to a
// backend, or passthrough, where TLS itself is: there the handshake is given up
// at the ClientHello, which crypto/tls has parsed and nobody has answered, and
// what was read so far goes to the backend first.
//
// The package knows TLS's groups as numbers with names: which of them exist,
// and who computes a key exchange, is decided elsewhere. It opens no sockets.
package proxy
