// Package backend sends requests and connections to pools of servers: in turn,
// to the one with the least to do, or by a consistent hash; with connections
// kept for reuse; and without those that lately failed.
//
// A backend that could not be reached, or gave no answer, several times in a
// row is ejected for a while; then one request tries it, and only its success
// brings the backend back. When every backend is ejected all of them are tried
// as if none were. Health checks, where there are any, decide apart from that:
// a backend that fails them is not tried. A request goes to another backend if
// nothing of it was sent, or if it may be repeated and its backend broke off
// before it answered; how often the latter happens is bounded.
//
// Each wait for a backend is bounded: to connect, for it to take a piece of a
// request, for the beginning of its answer, and for each piece of that. Only
// what happens there counts against it. A request that is refused before it is
// sent is its client's fault.
//
// A pool can tell its backends of clients by a PROXY header at the head of each
// connection, which is then for one client. Of clients the package knows that
// header and no more, and nothing of TLS towards them or of configurations.
package backend
