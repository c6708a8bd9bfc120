package interop

import (
	"debug/elf"
	"os/exec"
	"syscall"
	"testing"
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
