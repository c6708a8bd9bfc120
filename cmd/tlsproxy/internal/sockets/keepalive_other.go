//go:build !linux

package sockets

import "net"

func listenTCP(address string, option func(fd int) error) (net.Listener, error) {
	return listenPlain(address, option)
}
