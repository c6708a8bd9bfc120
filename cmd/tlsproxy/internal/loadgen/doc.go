// Package loadgen is a TLS client that makes load: full handshakes with one
// group, many at once, each on a connection of its own and perhaps followed by
// a request. It uses the processor only.
//
// It runs in a process of its own, so that the server's processor time can be
// told from the client's: Serve does what it reads on its input and writes
// results to its output, a line of JSON each.
package loadgen
