// Package outcome is what interop/client and interop/server print about a
// handshake, one JSON object a line, and how they tell failures apart: by the
// alert that was received, by who gave up, and by an exit status.
//
// It describes; it opens no connection and names no particular group.
package outcome
