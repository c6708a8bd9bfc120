// Package grpc shows gRPC, unchanged, over the groups of tlsext, by itself and
// through tlsproxy. It holds tests only, and is a module of its own, built by what a user of the library types:
//
//	go tool gotls test ./...
package grpc
