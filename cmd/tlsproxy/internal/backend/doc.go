// Package backend sends requests to a pool of HTTP/1.1 servers: round robin,
// with connections kept for reuse, and without those that lately failed.
//
// A backend that could not be reached, or gave no answer, several times in a
// row is ejected for a while; then one request tries it, and only its success
// brings the backend back. When every backend is ejected all of them are tried
// as if none were. A request of which nothing was sent yet goes to another
// backend if its own cannot be reached.
//
// The package knows nothing of clients, TLS towards them, or configurations.
package backend
