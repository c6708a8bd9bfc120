//go:build unix

package service

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

// TestStorageWarning: where certificates by ACME could not be kept check says so, and
// elsewhere it does not, whether the folder is there yet or not.
func TestStorageWarning(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		names   []config.HostName
		storage string
		warned  bool
	}{
		{[]config.HostName{"a.example"}, dir, false},
		{[]config.HostName{"a.example"}, filepath.Join(dir, "not", "yet"), false},
		{[]config.HostName{"a.example"}, file, true}, // the superuser may write to any folder, but to none beneath a file
		{[]config.HostName{"a.example"}, filepath.Join(file, "acme"), true},
		{nil, filepath.Join(file, "acme"), false},
	} {
		p := plan(t, func(c *config.Config) { c.ACME.Names, c.ACME.Storage = test.names, test.storage })
		var got []string
		for _, w := range p.Warnings() {
			if strings.HasPrefix(w, "acme.storage: this process may not write to "+test.storage+" (") {
				got = append(got, w)
			}
		}
		if (len(got) == 1) != test.warned {
			t.Errorf("%+v: %q", test, p.Warnings())
		}
	}
}
