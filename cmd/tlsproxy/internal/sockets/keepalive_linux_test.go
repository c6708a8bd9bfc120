package sockets

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKeepAlive: an accepted connection has the options that package net sets on each.
func TestKeepAlive(t *testing.T) {
	ours, err := listenTCP("127.0.0.1:0", noOption)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	std, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer std.Close()
	got, want := keepAliveOf(t, ours), keepAliveOf(t, std)
	if got != want || got[0] != 1 {
		t.Errorf("keep-alive, idle, interval and probes are %v, package net's %v", got, want)
	}
}

func keepAliveOf(t *testing.T, ln net.Listener) (values [4]int) {
	t.Helper()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	raw, err := accepted.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		for i, option := range [4][2]int{{unix.SOL_SOCKET, unix.SO_KEEPALIVE}, {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE}, {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL}, {unix.IPPROTO_TCP, unix.TCP_KEEPCNT}} {
			value, err := unix.GetsockoptInt(int(fd), option[0], option[1])
			if err != nil {
				t.Error(err)
			}
			values[i] = value
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return values
}
