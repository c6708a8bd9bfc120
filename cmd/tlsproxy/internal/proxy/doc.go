// Package proxy terminates TLS and hands requests to backends.
//
// A connection is accepted, does its TLS handshake in a goroutine of its own
// and in bounded time, and only then goes to a net/http server, which speaks
// HTTP/1.1 or HTTP/2 with it. So a handshake that fails is logged with what
// the client had offered, one that stalls costs no more than its time-out, and
// every connection is counted from accept to close, upgraded ones included.
// Requests go through httputil.ReverseProxy to an http.RoundTripper.
//
// The package knows TLS's groups as numbers with names: which of them exist,
// and who computes a key exchange, is decided elsewhere. It opens no sockets.
package proxy
