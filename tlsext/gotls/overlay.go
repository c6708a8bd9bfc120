package main

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// hookFile is the file that the overlay adds to crypto/tls.
const hookFile = "ctrutls.go"

//go:embed _hook/ctrutls.go
var hookText []byte

// overlay is the file that go build's -overlay flag names (go help build).
type overlay struct {
	Replace map[string]string
}

// writeOverlay writes the patched files of crypto/tls and an overlay of them
// into the cache, and returns the overlay's path. Where the user has an overlay
// of their own, the result holds both.
func (tc *toolchain) writeOverlay(cache string, files map[string][]byte, users string) (string, error) {
	names := slices.Sorted(maps.Keys(files))
	// The name is the content's: whatever runs at the same time writes the same
	// bytes, and a build of yesterday finds the files of yesterday.
	sum := sha256.New()
	fmt.Fprintf(sum, "%q\n", tc.GOROOT)
	for _, name := range names {
		fmt.Fprintf(sum, "%q %d\n%s", name, len(files[name]), files[name])
	}
	dir := filepath.Join(cache, tc.folder()+"-"+hex.EncodeToString(sum.Sum(nil)[:8]))
	ours := overlay{Replace: make(map[string]string)}
	for _, name := range names {
		to := filepath.Join(dir, name)
		if err := writeFile(to, files[name]); err != nil {
			return "", err
		}
		ours.Replace[filepath.Join(tlsDir(tc.GOROOT), name)] = to
	}
	file := "overlay.json"
	if users != "" {
		if err := tc.merge(&ours, users); err != nil {
			return "", err
		}
	}
	text, err := json.MarshalIndent(ours, "", "\t")
	if err != nil {
		return "", err
	}
	if len(ours.Replace) > len(files) {
		sum := sha256.Sum256(text)
		file = "overlay-" + hex.EncodeToString(sum[:8]) + ".json"
	}
	path := filepath.Join(dir, file)
	return path, writeFile(path, append(text, '\n'))
}

// merge adds the user's overlay to ours. Relative paths in it are relative to
// the folder that the go command runs in. What gotls itself put there is passed
// over: inside a shell of gotls env, GOFLAGS names an overlay of gotls.
func (tc *toolchain) merge(ours *overlay, path string) error {
	absolute := func(p string) string {
		if p == "" || filepath.IsAbs(p) {
			return p
		}
		return filepath.Join(tc.dir, p)
	}
	text, err := os.ReadFile(absolute(path))
	if err != nil {
		return fmt.Errorf("reading the -overlay that was there already: %w", err)
	}
	var users overlay
	if err := json.Unmarshal(text, &users); err != nil {
		return fmt.Errorf("the -overlay that was there already, %s: %w", path, err)
	}
	for from, to := range users.Replace {
		if _, hooked := users.Replace[filepath.Join(filepath.Dir(from), hookFile)]; hooked {
			continue
		}
		if from = absolute(from); within(tlsDir(tc.GOROOT), from) {
			return fmt.Errorf("-overlay=%s replaces %s, but gotls patches crypto/tls of the toolchain as it is; leave crypto/tls out of that overlay", path, from)
		}
		ours.Replace[from] = absolute(to)
	}
	return nil
}

// within reports whether path is dir or beneath it.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// writeFile makes the file at path hold text. Whoever reads path meanwhile finds
// all of it or none.
func writeFile(path string, text []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it is renamed
	_, err = io.Copy(f, bytes.NewReader(text))
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
