//go:build unix

package upgrade

import (
	"os"
	"syscall"
)

// inherited is a descriptor that the process was started with: not for its own
// successors, and with deadlines.
func inherited(fd int, name string) *os.File {
	syscall.CloseOnExec(fd)
	syscall.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
}
