package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// imaginary is a toolchain that is not there: writing an overlay does not look.
func imaginary(dir string) *toolchain {
	return &toolchain{GOROOT: filepath.Join(dir, "go root"), GOVERSION: "go1.26.8 X:none", dir: dir}
}

func readOverlay(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var o overlay
	if err := json.Unmarshal(text, &o); err != nil {
		t.Fatal(err)
	}
	return o.Replace
}

func TestWriteOverlay(t *testing.T) {
	dir := t.TempDir()
	cache := filepath.Join(dir, "cache")
	tc := imaginary(dir)
	files := map[string][]byte{"conn.go": []byte("package tls"), hookFile: hookText}
	path, err := tc.writeOverlay(cache, files, "")
	if err != nil {
		t.Fatal(err)
	}
	replace := readOverlay(t, path)
	if len(replace) != len(files) {
		t.Errorf("the overlay replaces %v", replace)
	}
	for name, text := range files {
		got, err := os.ReadFile(replace[filepath.Join(dir, "go root", "src", "crypto", "tls", name)])
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s: %v", name, err)
		}
	}

	t.Run("the same again", func(t *testing.T) {
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		again, err := tc.writeOverlay(cache, files, "")
		if err != nil || again != path {
			t.Fatalf("%s, %v; want %s", again, err, path)
		}
		if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
			t.Error("what was there already was written anew")
		}
	})
	t.Run("other text", func(t *testing.T) {
		other, err := tc.writeOverlay(cache, map[string][]byte{"conn.go": []byte("package tls // new")}, "")
		if err != nil || filepath.Dir(other) == filepath.Dir(path) {
			t.Errorf("%s, %v; want another folder than %s", other, err, path)
		}
	})
	t.Run("another GOROOT", func(t *testing.T) {
		moved := imaginary(dir)
		moved.GOROOT += " 2"
		other, err := moved.writeOverlay(cache, files, "")
		if err != nil || filepath.Dir(other) == filepath.Dir(path) {
			t.Errorf("%s, %v; want another folder than %s", other, err, path)
		}
	})
	t.Run("mended", func(t *testing.T) {
		damaged := filepath.Join(filepath.Dir(path), hookFile)
		if err := os.WriteFile(damaged, []byte("pack"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := tc.writeOverlay(cache, files, ""); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(damaged); err != nil || !bytes.Equal(text, hookText) {
			t.Errorf("the damaged file is %q, %v", text, err)
		}
	})
	entries, err := filepath.Glob(filepath.Join(cache, "*", ".new-*"))
	if err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// Whoever reads a file while others write it finds all of it.
func TestWriteFileIsAtomic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	texts := [][]byte{bytes.Repeat([]byte("a"), 1<<18), bytes.Repeat([]byte("b"), 1<<18)}
	if err := writeFile(path, texts[0]); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, text := range texts {
		wg.Go(func() {
			for range 50 {
				if err := writeFile(path, text); err != nil {
					t.Error(err)
				}
				got, err := os.ReadFile(path)
				if err != nil || !bytes.Equal(got, texts[0]) && !bytes.Equal(got, texts[1]) {
					t.Errorf("read %d bytes, %v", len(got), err)
				}
			}
		})
	}
	wg.Wait()
}

func TestReplaceLink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "links", "go")
	for _, target := range []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")} {
		if err := replaceLink(link, target); err != nil {
			t.Fatal(err)
		}
		if got, err := os.Readlink(link); err != nil || got != target {
			t.Errorf("the link points to %s, %v; want %s", got, err, target)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(link)); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// A user's own overlay lives on in ours.
func TestMergeOverlay(t *testing.T) {
	dir := t.TempDir()
	cache := filepath.Join(dir, "cache")
	tc := imaginary(dir)
	files := map[string][]byte{"conn.go": []byte("package tls"), hookFile: hookText}
	users := func(text string) string {
		path := filepath.Join(dir, "users.json")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	relative := users(`{"Replace": {"pkg/a.go": "other/a.go", "gone.go": "", "/abs/b.go": "/abs/c.go"}}`)
	merged, err := tc.writeOverlay(cache, files, filepath.Base(relative))
	if err != nil {
		t.Fatal(err)
	}
	replace := readOverlay(t, merged)
	for from, to := range map[string]string{
		filepath.Join(dir, "pkg", "a.go"): filepath.Join(dir, "other", "a.go"),
		filepath.Join(dir, "gone.go"):     "",
		"/abs/b.go":                       "/abs/c.go",
	} {
		if got, ok := replace[from]; !ok || got != to {
			t.Errorf("%s is replaced by %q, want %q", from, got, to)
		}
	}
	if len(replace) != 5 {
		t.Errorf("the overlay replaces %v", replace)
	}

	plain, err := tc.writeOverlay(cache, files, "")
	if err != nil || plain == merged {
		t.Errorf("without a user's overlay it is %s, %v; with one %s", plain, err, merged)
	}
	// GOFLAGS in a shell of gotls env names an overlay of ours already.
	if again, err := tc.writeOverlay(cache, files, merged); err != nil || again != merged {
		t.Errorf("merged with itself it is %s, %v; want %s", again, err, merged)
	}

	// Also one for another toolchain, in another cache; what the user added stays.
	other := imaginary(dir)
	other.GOROOT += " 2"
	foreign, err := other.writeOverlay(filepath.Join(dir, "cache 2"), files, relative)
	if err != nil {
		t.Fatal(err)
	}
	mixed, err := tc.writeOverlay(cache, files, foreign)
	if err != nil {
		t.Fatal(err)
	}
	if replace := readOverlay(t, mixed); len(replace) != 5 || replace["/abs/b.go"] != "/abs/c.go" {
		t.Errorf("out of a foreign overlay came %v", replace)
	}

	tls := filepath.Join(tlsDir(tc.GOROOT), "conn.go")
	for text, words := range map[string]string{
		`{"Replace": {` + quoteJSON(t, tls) + `: "/mine.go"}}`: "leave crypto/tls out",
		`{"Replace": `: "unexpected end",
	} {
		if _, err := tc.writeOverlay(cache, files, users(text)); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s gives %v, want %q", text, err, words)
		}
	}
	if _, err := tc.writeOverlay(cache, files, "nowhere.json"); err == nil || !strings.Contains(err.Error(), "nowhere.json") {
		t.Errorf("an overlay that is not there gives %v", err)
	}
}

func quoteJSON(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestVersions(t *testing.T) {
	for version, words := range map[string]string{
		"go1.25.3":                 "go1.25.3 is too old",
		"go1.28.0":                 "go1.28.0 is newer",
		"devel go1.29-abcdef Mon":  "is newer",
		"weekly":                   "no Go version",
		"":                         "no Go version",
		"go1.26.0":                 "",
		"go1.26":                   "",
		"go1.27rc1":                "",
		"go1.27.4-X:boringcrypto":  "",
		"go1.27-devel_0123456789a": "",
	} {
		err := (&toolchain{GOVERSION: version}).supported()
		if (err == nil) != (words == "") || err != nil && !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v, want %q", version, err, words)
		}
	}
	t.Setenv(untestedEnv, "1")
	if err := (&toolchain{GOVERSION: "go1.28.0"}).supported(); err != nil {
		t.Errorf("with %s=1: %v", untestedEnv, err)
	}
	if err := (&toolchain{GOVERSION: "go1.25.0"}).supported(); err == nil {
		t.Errorf("%s=1 lets an older Go pass", untestedEnv)
	}
}

func TestCacheDir(t *testing.T) {
	dir := t.TempDir()
	tc := &toolchain{GOCACHE: filepath.Join(dir, "go-build")}
	for _, v := range []string{"GOTLS_CACHE", "XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(v, "")
	}
	t.Run("no home", func(t *testing.T) {
		if got, err := tc.cacheDir(); err != nil || got != filepath.Join(tc.GOCACHE, "ctrutls-gotls") {
			t.Errorf("%s, %v", got, err)
		}
	})
	t.Run("nothing at all", func(t *testing.T) {
		if got, err := (&toolchain{GOCACHE: "off"}).cacheDir(); err == nil || !strings.Contains(err.Error(), "GOTLS_CACHE") {
			t.Errorf("%s, %v", got, err)
		}
	})
	t.Run("a home that is a file", func(t *testing.T) {
		file := filepath.Join(dir, "file")
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Setenv("HOME", file)
		t.Setenv("XDG_CACHE_HOME", file)
		t.Setenv("LocalAppData", file)
		if got, err := tc.cacheDir(); err != nil || got != filepath.Join(tc.GOCACHE, "ctrutls-gotls") {
			t.Errorf("%s, %v", got, err)
		}
	})
	t.Run("GOTLS_CACHE", func(t *testing.T) {
		t.Setenv("GOTLS_CACHE", filepath.Join(dir, "mine"))
		if got, err := tc.cacheDir(); err != nil || got != filepath.Join(dir, "mine") {
			t.Errorf("%s, %v", got, err)
		}
	})
}

func TestShellQuote(t *testing.T) {
	for in, want := range map[string]string{"a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'"} {
		if got := shellQuote(in); got != want {
			t.Errorf("shellQuote(%q) is %s, want %s", in, got, want)
		}
	}
}
