package grpc

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel end cmd's process if this one ends first.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
