//go:build unix

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// The go command takes the process over: signals reach it as if gotls were not
// there, and there is nothing left that could swallow one.
func TestProcessIsTheGoCommand(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "run", ".")
	cmd.Dir = probeModule(t)
	cmd.Env = append(os.Environ(), mainEnv+"=1", "GOFLAGS=", "GOPROXY=off")
	cmd.Stderr = t.Output()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The probe lives until its input ends, and names its parent: go run.
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Error(err)
	}
	wantOutput(t, line, "hook=true", fmt.Sprintf("ppid=%d\n", cmd.Process.Pid))
	if err := stdin.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
