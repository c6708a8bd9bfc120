// Command server is a TLS server for interop tests: crypto/tls's own, with the
// groups, client authentication, tickets and application protocols that its
// flags ask for. It prints one JSON object for each handshake.
//
// The first line of its output is {"event":"listening","address":"127.0.0.1:1234",...},
// so that --listen 127.0.0.1:0 is of use. Over HTTP/1.1 and HTTP/2 it answers
// every request with what was negotiated, as JSON; with --echo it sends back
// what it receives, without HTTP. It runs until SIGTERM or SIGINT, or until its
// standard input ends if --end-with-stdin is given.
//
// Built by `go tool gotls build` it speaks the groups of tlsext; built by the
// plain go command it is a stock Go server. The exit status is 0, 1 for the
// command line, 2 for a group that this build does not have.
package main
