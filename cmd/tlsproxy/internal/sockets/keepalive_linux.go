package sockets

import (
	"context"
	"net"

	"golang.org/x/sys/unix"
)

// How a client that is gone without a word is found out: as package net does it.
const (
	keepAliveIdle     = 15 // seconds
	keepAliveInterval = 15 // seconds
	keepAliveProbes   = 9
)

// listenTCP is net.Listen with an option of the caller's, but for those for keep-alive:
// accepted connections inherit the listener's on Linux, so that they are set once and not
// by four calls for each. A kernel that does not take one of them, as older ones do not on
// a listener for Multipath TCP, which net.Listen makes, gets what net.Listen does.
func listenTCP(address string, option func(fd int) error) (net.Listener, error) {
	var unset error
	c := listenConfig(func(fd int) error {
		if unset = setKeepAlive(fd); unset != nil {
			return unset
		}
		return option(fd)
	})
	c.KeepAlive = -1
	ln, err := c.Listen(context.Background(), "tcp", address)
	if unset != nil {
		return listenPlain(address, option)
	}
	return ln, err
}

func setKeepAlive(fd int) error {
	for _, option := range []struct{ level, name, value int }{
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepAliveIdle},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepAliveInterval},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepAliveProbes},
	} {
		if err := unix.SetsockoptInt(fd, option.level, option.name, option.value); err != nil {
			return err
		}
	}
	return nil
}
