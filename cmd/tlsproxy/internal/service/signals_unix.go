//go:build unix

package service

import (
	"os"
	"syscall"
)

// Signals lists those that Run obeys: SIGHUP has it read its configuration, and
// SIGUSR2 start a successor.
func Signals() []os.Signal { return []os.Signal{syscall.SIGHUP, syscall.SIGUSR2} }

func isUpgrade(s os.Signal) bool { return s == syscall.SIGUSR2 }
