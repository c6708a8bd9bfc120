package service

import (
	"context"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// How a client that is gone without a word is found out: as package net does it.
const (
	keepAliveIdle     = 15 // seconds
	keepAliveInterval = 15 // seconds
	keepAliveProbes   = 9
)

// listen is net.Listen, but for the options for keep-alive: accepted connections inherit
// the listener's on Linux, so that they are set once and not by four calls for each. A
// kernel that does not take one of them, as older ones do not on a listener for Multipath
// TCP, which net.Listen makes, gets what net.Listen does.
func listen(address string) (net.Listener, error) {
	var unset error
	c := net.ListenConfig{KeepAlive: -1, Control: func(_, _ string, raw syscall.RawConn) error {
		if err := raw.Control(func(fd uintptr) { unset = setKeepAlive(int(fd)) }); err != nil {
			return err
		}
		return unset
	}}
	ln, err := c.Listen(context.Background(), "tcp", address)
	if unset != nil {
		return net.Listen("tcp", address)
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
