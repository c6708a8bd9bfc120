//go:build !unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
)

// become runs the go command as a child. A Ctrl-C reaches the child as well,
// which decides; this process lives on to pass the child's exit status on.
func become(path string, args []string) error {
	signal.Ignore(os.Interrupt)
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return exitStatus(exit.ExitCode())
	}
	return err
}
