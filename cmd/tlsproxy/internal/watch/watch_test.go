package watch

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestChanged goes through the ways in which a file becomes another. Times are
// set, as two writes can have one.
func TestChanged(t *testing.T) {
	dir := t.TempDir()
	file, other := filepath.Join(dir, "file"), filepath.Join(dir, "other")
	then := time.Now().Add(-time.Hour)
	for name, change := range map[string]func(){
		"rewritten": func() { write(t, file, "two") },
		"longer":    func() { write(t, file, "three"); must(t, os.Chtimes(file, then, then)) },
		"renamed over": func() {
			write(t, other, "two")
			must(t, os.Chtimes(other, then, then))
			must(t, os.Rename(other, file))
		},
		"removed": func() { must(t, os.Remove(file)) },
		"replaced by links": func() {
			write(t, other, "one")
			must(t, os.Chtimes(other, then, then))
			must(t, os.Remove(file))
			must(t, os.Symlink(other, file))
		},
	} {
		os.Remove(file)
		write(t, file, "one")
		must(t, os.Chtimes(file, then, then))
		var f Files
		f.Note(file)
		f.Note(filepath.Join(dir, "never"))
		f.Note("")
		if f.Changed() {
			t.Errorf("%s: changed before it was", name)
		}
		if change(); !f.Changed() {
			t.Errorf("%s: not changed", name)
		}
	}
	var f Files
	f.Note(filepath.Join(dir, "new"))
	if write(t, filepath.Join(dir, "new"), ""); !f.Changed() {
		t.Error("a file that appears goes unnoticed")
	}
	if new(Files).Changed() {
		t.Error("no files have changed")
	}
}

// TestSymlinkSwap has a folder's link replaced, as Kubernetes does.
func TestSymlinkSwap(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"1", "2"} {
		must(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		file := filepath.Join(dir, version, "file")
		write(t, file, "same")
		must(t, os.Chtimes(file, time.Unix(1, 0), time.Unix(1, 0)))
		must(t, os.Symlink(version, filepath.Join(dir, "link"+version)))
	}
	must(t, os.Rename(filepath.Join(dir, "link1"), filepath.Join(dir, "data")))
	var f Files
	f.Note(filepath.Join(dir, "data", "file"))
	if f.Changed() {
		t.Error("changed before it was")
	}
	must(t, os.Rename(filepath.Join(dir, "link2"), filepath.Join(dir, "data")))
	if !f.Changed() {
		t.Error("not changed")
	}
}
