// Package accesslog defines the lines that tlsproxy writes for requests and for
// connections whose bytes it relays: which fields they have, and what bounds a field
// that clients fill. docs/logging.md describes them, and a test holds it to that.
//
// It knows nothing of when a line is written, and takes no query, header or body of a
// request, nor any key material.
package accesslog
