//go:build gorgonia && linux && (amd64 || arm64)

package gorgonia

import (
	"debug/elf"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"gorgonia.org/cu"

	"github.com/ctrutls/ctrutls/gpu/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What cu says before any library is open.
var _, errBefore = cu.NumDevices()

func TestBeforeOpen(t *testing.T) {
	if errBefore != cu.NotInitialized {
		t.Errorf("cu.NumDevices before driver.Open: %v", errBefore)
	}
}

func TestOpenGoesThroughCu(t *testing.T) {
	if got := driver.Implementation(); got != "gorgonia.org/cu" {
		t.Errorf("driver.Open uses %s", got)
	}
}

// The program starts where there is no libcuda.
func TestNothingIsLinked(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(libraries, func(l string) bool { return strings.HasPrefix(l, "libcuda") }) {
		t.Errorf("the program needs %v", libraries)
	}
	// A library of CUDA's must not find our functions under its own names.
	exported, err := f.DynamicSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		t.Fatal(err)
	}
	for _, s := range exported {
		if s.Section != elf.SHN_UNDEF && (s.Name == "cuInit" || s.Name == "cuMemAlloc_v2") {
			t.Errorf("the program exports %s", s.Name)
		}
	}
}

func TestUseIsForOne(t *testing.T) {
	defer func() {
		if r := recover(); r != "driver: gorgonia.org/cu and another are both in the program: import one" {
			t.Errorf("a second implementation: %v", r)
		}
	}()
	driver.Use("another", open)
}
