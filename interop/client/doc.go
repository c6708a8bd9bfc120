// Command client makes TLS connections to a server and prints what was
// negotiated, one JSON object a connection. It is the other end of the interop
// tests and a tool for whoever tests a server against CTRU-Prime groups.
//
// It needs neither a GPU nor cgo:
//
//	CGO_ENABLED=0 go tool gotls build -tags nogpu ./interop/client
//
// gives one static binary. Built by the plain go command it is a stock Go
// client, which knows crypto/tls's own groups only.
//
// The exit status is that of the first connection that failed: 0 where none
// did, 1 for the command line, 2 for a group that this build does not have, 3
// without a TCP connection, 4 after the time given, 5 where the server's
// certificate was refused, 6 where the server closed without an alert, 7 for
// another TLS failure found by the client, 8 where TLS worked and the request
// or echo did not, and 100 plus its number for an alert received:
// handshake_failure is 140, illegal_parameter 147, internal_error 180.
package main
