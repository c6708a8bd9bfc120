//go:build !linux

package service

import "net"

func listen(address string) (net.Listener, error) { return net.Listen("tcp", address) }
