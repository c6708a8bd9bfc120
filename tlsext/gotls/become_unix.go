//go:build unix

package main

import (
	"fmt"
	"os"
	"syscall"
)

// become turns this process into the go command: its exit status, its streams
// and the signals that it gets are then nobody else's business. It returns only
// if that fails.
func become(path string, args []string) error {
	err := syscall.Exec(path, append([]string{path}, args...), os.Environ())
	return fmt.Errorf("running %s: %w", path, err)
}
