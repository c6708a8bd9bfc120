//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sockets

import (
	"fmt"
	"io/fs"
	"runtime"

	"golang.org/x/sys/unix"
)

func setReusePort(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return fmt.Errorf("SO_REUSEPORT: %w", err)
	}
	return nil
}

// restrict has Linux make the file of a Unix socket with no more permissions than
// those, so that there is no moment in which others can connect.
// Elsewhere what the umask leaves holds for that moment.
func restrict(fd int, mode fs.FileMode) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	return unix.Fchmod(fd, uint32(mode.Perm()))
}
