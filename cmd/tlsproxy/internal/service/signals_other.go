//go:build !unix

package service

import (
	"os"
	"syscall"
)

// Signals lists those that Run obeys: SIGHUP has it read its configuration.
func Signals() []os.Signal { return []os.Signal{syscall.SIGHUP} }

func isUpgrade(os.Signal) bool { return false }
