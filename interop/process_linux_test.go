package interop

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// dieWithParent has the kernel end cmd's process if this one ends first, as it
// does when a test runs out of time.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// The client is one static file: it asks for no dynamic loader and no library.
func TestClientIsStatic(t *testing.T) {
	f, err := elf.Open(program(t, hookClient, "client"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the client has a %v segment", p.Type)
		}
	}
	if libs, err := f.ImportedLibraries(); err != nil || len(libs) > 0 {
		t.Errorf("the client imports %v (%v)", libs, err)
	}
}

// openFiles counts the open files of a process.
func openFiles(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// settle waits until a process has no more files open than it had before, but
// for the idle connections to its backend: at most 16 requests ran at a time.
func settle(t *testing.T, pid, before int) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for openFiles(t, pid) > before+16 {
		if time.Now().After(deadline) {
			t.Fatalf("%d files are open, %d were before", openFiles(t, pid), before)
		}
		time.Sleep(10 * time.Millisecond) // between two looks, not for an event
	}
}
