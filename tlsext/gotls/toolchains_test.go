//go:build toolchains

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// toolchainsEnv lists the toolchains of these tests, such as "go1.26.0 go1.27.4",
// beside the installed one. The go command downloads those that are not there.
const toolchainsEnv = "CTRUTLS_TOOLCHAINS"

// toolchains returns what GOTOOLCHAIN is to be.
func toolchains(t *testing.T) []string {
	t.Helper()
	list := strings.Fields(os.Getenv(toolchainsEnv))
	if len(list) == 0 {
		t.Fatalf("%s is empty; set it to a list such as \"go1.26.0 go1.27.4\"", toolchainsEnv)
	}
	return append([]string{"local"}, list...)
}

// with is a command whose toolchain is the one given; the network is there.
func with(dir, toolchain string) command {
	c := command{dir: dir, env: []string{"GOTOOLCHAIN=" + toolchain, "GOPROXY=" + os.Getenv("GOPROXY")}}
	if toolchain != "local" {
		c.env = append(c.env, "GOROOT=") // that of the go command which runs the tests
	}
	return c
}

func TestToolchains(t *testing.T) {
	for _, toolchain := range toolchains(t) {
		t.Run(toolchain, func(t *testing.T) {
			t.Run("anchors", func(t *testing.T) {
				goroot := with(t.TempDir(), toolchain).run(t, "go", "env", "GOROOT").succeeds(t).stdout
				checkPatched(t, readTLS(t, strings.TrimSpace(goroot)))
			})
			t.Run("check", func(t *testing.T) {
				out := with(t.TempDir(), toolchain).gotls(t, "check").succeeds(t).stdout
				wantOutput(t, out, "compiles with the hook")
				if toolchain != "local" && !strings.HasPrefix(out, toolchain+" ") {
					t.Errorf("another toolchain was checked: %s", out)
				}
			})
			t.Run("tlsext", func(t *testing.T) {
				c := with(repository(t), toolchain)
				c.env = append(c.env, "GOFLAGS=-mod=readonly")
				c.gotls(t, "test", "-count=1", "./tlsext").succeeds(t)
			})
			t.Run("crypto/tls's own tests", func(t *testing.T) { compareSuites(t, toolchain) })
		})
	}
}

// A go.mod's toolchain line decides, in the folder that -C names; GOROOT need not
// be where it was.
func TestToolchainLine(t *testing.T) {
	for _, toolchain := range toolchains(t)[1:] {
		t.Run(toolchain, func(t *testing.T) {
			dir := probeModule(t)
			write(t, dir, map[string]string{
				"go.mod":     "module example.com/probe\n\ngo 1.26\n\ntoolchain " + toolchain + "\n",
				"version.go": "package main\n\nimport \"runtime\"\n\nfunc init() { println(runtime.Version()) }\n",
			})
			// GOTOOLCHAIN is the least that is used.
			c := with(t.TempDir(), "go1.26.0+auto")
			o := c.gotls(t, "-C", dir, "run", ".").succeeds(t)
			wantOutput(t, o.stdout, "hook=true")
			if got := strings.TrimSpace(o.stderr); got != toolchain {
				t.Errorf("the program was built by %q, want %s", got, toolchain)
			}
			c = with(dir, "go1.26.0+auto")
			wantOutput(t, c.run(t, "sh", "-euc", fmt.Sprintf(`eval "$(%s=1 %s env)"; go run .`, mainEnv, shellQuote(os.Args[0]))).succeeds(t).stdout, "hook=true")
		})
	}
}

// A toolchain without the keyExchange interface, and what gotls says of it.
func TestTooOldToolchain(t *testing.T) {
	with(t.TempDir(), "go1.25.3").gotls(t, "build", "crypto/tls").fails(t, 1, "gotls: go1.25.3 is too old", "GOTOOLCHAIN=go1.26.0")
}

// compareSuites runs crypto/tls's own tests without and with the hook. Some want a
// network that may not be there: what counts is that the results are the same.
// Tests whose results differ get a second chance, in case one of them met with an
// accident.
func compareSuites(t *testing.T, toolchain string) {
	var differ []string
	for round := range 2 {
		plain, hooked := suite(t, toolchain, false), suite(t, toolchain, true)
		if passed := count(plain, "pass"); passed < 500 {
			t.Fatalf("only %d tests of crypto/tls pass without the hook", passed)
		}
		var now []string
		for name := range plain {
			if plain[name] != hooked[name] {
				now = append(now, fmt.Sprintf("%s: %q without the hook, %q with it", name, plain[name], hooked[name]))
			}
		}
		for name := range hooked {
			if plain[name] == "" {
				now = append(now, fmt.Sprintf("%s: only with the hook", name))
			}
		}
		t.Logf("%d tests, of which %d fail either way; %d differ", len(plain), count(plain, "fail"), len(now))
		if round > 0 {
			now = slices.DeleteFunc(now, func(s string) bool { return !slices.Contains(differ, s) })
		}
		if differ = now; len(differ) == 0 {
			return
		}
	}
	slices.Sort(differ)
	t.Errorf("results differ:\n%s", strings.Join(differ, "\n"))
}

func count(results map[string]string, result string) (n int) {
	for _, r := range results {
		if r == result {
			n++
		}
	}
	return n
}

// suite returns the result of each test of crypto/tls, by name.
func suite(t *testing.T, toolchain string, hooked bool) map[string]string {
	t.Helper()
	c := with(probeModule(t), toolchain)
	args := []string{"test", "-count=1", "-json", "crypto/tls/..."}
	var o outcome
	if hooked {
		o = c.gotls(t, args...)
	} else {
		o = c.run(t, "go", args...)
	}
	if o.status > 1 {
		t.Fatalf("exit status %d\n%s", o.status, o.stderr)
	}
	results := make(map[string]string)
	lines := bufio.NewScanner(strings.NewReader(o.stdout))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var event struct{ Action, Package, Test string }
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatalf("%v in %s", err, lines.Text())
		}
		if slices.Contains([]string{"pass", "fail", "skip"}, event.Action) {
			results[filepath.ToSlash(event.Package)+"."+event.Test] = event.Action
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return results
}
