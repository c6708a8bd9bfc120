package loadgen

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// bindWithoutPort has the kernel choose the local port at the connect, when it knows the
// other end: chosen before, each port serves one connection in the time that a closed one
// is remembered (IP_BIND_ADDRESS_NO_PORT, ip(7)).
func bindWithoutPort(_, _ string, raw syscall.RawConn) error {
	var err error
	if controlErr := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	}); controlErr != nil {
		return controlErr
	}
	return err
}
