package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The committed tables are what this program writes.
func TestCommittedTables(t *testing.T) {
	for name, want := range headers() {
		got, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s differs: run `go generate ./kernels`", name)
		}
	}
}
