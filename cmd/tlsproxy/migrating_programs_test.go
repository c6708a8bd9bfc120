//go:build programs

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// othersExample writes an example of docs/migrating.md in another program's language to a
// file, and what it names: each is a chain with its key.
func othersExample(t *testing.T, language string) (file string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "docs", "migrating.md"))
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(text)
	if example == nil {
		t.Fatalf("no example for %s", language)
	}
	dir := filepath.Dir(files(t, selfSigned(t), ""))
	var chain []byte
	for _, name := range []string{"cert.pem", "key.pem"} {
		part, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, part...)
	}
	both := filepath.Join(dir, "both.pem")
	if err := os.WriteFile(both, chain, 0o600); err != nil {
		t.Fatal(err)
	}
	config := replaceFolders(string(example[1]), dir)
	for _, name := range regexp.MustCompile(regexp.QuoteMeta(dir)+`/\S+?(/|\.pem|\.key)?([\s;])`).FindAllStringSubmatch(config, -1) {
		path := name[0][:len(name[0])-len(name[2])]
		if name[1] == "/" {
			path += "chain.pem"
		}
		link(t, both, path)
	}
	file = filepath.Join(dir, "example.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestExampleInNginx has nginx check what is said to be a configuration of its own.
func TestExampleInNginx(t *testing.T) {
	file := othersExample(t, "nginx")
	if out, err := exec.Command("nginx", "-t", "-e", "stderr", "-p", filepath.Dir(file), "-c", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestExampleInHAProxy is the same with HAProxy.
func TestExampleInHAProxy(t *testing.T) {
	if out, err := exec.Command("haproxy", "-c", "-V", "-f", othersExample(t, "haproxy")).CombinedOutput(); err != nil || regexp.MustCompile(`ALERT|WARNING`).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}
