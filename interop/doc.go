// Package interop holds no code of its own: its tests run clients and servers
// as separate processes and check what they negotiate with each other.
//
// The programs beside it are the two ends. interop/client is a TLS client that
// needs no GPU and no cgo, and prints what was negotiated as JSON; with
// -tags nogpu it is one static binary. interop/server is its counterpart on
// crypto/tls. Each is built twice for the tests, with the hook of tlsext/gotls
// and without it: the second build is a stock Go peer. interop/grpc is a module
// of its own, as a user's module would be, with gRPC through the groups.
//
// The tests here know the product by what crosses a socket: they import neither
// provider nor tlsext, and reach cmd/tlsproxy by its command line, its
// configuration file and its listening sockets.
package interop
