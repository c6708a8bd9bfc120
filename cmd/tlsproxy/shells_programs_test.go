//go:build programs

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// typed are command lines before the tab key and after it, without a space at the end.
var typed = [][2]string{
	{"tlsproxy ch", "tlsproxy check"},
	{"tlsproxy demo --gp", "tlsproxy demo --gpu"},
	{"tlsproxy demo --gpu a", "tlsproxy demo --gpu auto"},
	{"tlsproxy demo --gpu=si", "tlsproxy demo --gpu=sim"},
	{"tlsproxy demo --groups X25519,CurveP25", "tlsproxy demo --groups X25519,CurveP256"},
	{"tlsproxy completion z", "tlsproxy completion zsh"},
	{"tlsproxy check -c con", "tlsproxy check -c conf.yaml"},
	{"tlsproxy check --config=con", "tlsproxy check --config=conf.yaml"},
}

// shellFolder has the program, a configuration and a shell's script in it.
func shellFolder(t *testing.T, shell string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "tlsproxy")); err != nil {
		t.Fatal(err)
	}
	status, script, errText := tlsproxy("completion", shell)
	if status != 0 {
		t.Fatal(errText)
	}
	for name, text := range map[string]string{"script": script, "conf.yaml": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return dir
}

// TestCompletionInShells presses the tab key in interactive shells.
func TestCompletionInShells(t *testing.T) {
	driver, err := filepath.Abs(filepath.Join("testdata", "type.zsh"))
	if err != nil {
		t.Fatal(err)
	}
	for _, shell := range []struct{ name, command, setup string }{
		{"bash", "bash --norc --noprofile -i", "dump() { printf %s \"$READLINE_LINE\" > answer; READLINE_LINE=; }\nbind -x '\"\\C-g\": dump'\n. script\n"},
		{"zsh", "zsh -f -i", "autoload -Uz compinit && compinit -u -D\nsetopt no_beep\ndump() { print -rn -- $BUFFER > answer; BUFFER= }\nzle -N dump\nbindkey '^G' dump\n. ./script\n"},
	} {
		t.Run(shell.name, func(t *testing.T) {
			dir := shellFolder(t, shell.name)
			if err := os.WriteFile(filepath.Join(dir, "setup"), []byte(shell.setup), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{"-f", driver, "./setup", "answer"}
			for _, line := range typed {
				args = append(args, line[0])
			}
			process := exec.Command("zsh", append(append(args, "--"), strings.Fields(shell.command)...)...)
			process.Dir = dir
			out, err := process.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
			if len(got) != len(typed) {
				t.Fatalf("%q", got)
			}
			for i, line := range typed {
				if strings.TrimRight(got[i], " ") != line[1] {
					t.Errorf("%q became %q, want %q", line[0], got[i], line[1])
				}
			}
		})
	}
}

// TestCompletionInFish asks it what it would offer.
func TestCompletionInFish(t *testing.T) {
	dir := shellFolder(t, "fish")
	for _, line := range typed {
		process := exec.Command("fish", "--no-config", "-c", fmt.Sprintf("source script; complete -C '%s'", line[0]))
		process.Dir = dir
		out, err := process.CombinedOutput()
		word := line[1][strings.LastIndexByte(line[1], ' ')+1:]
		if got, _, _ := strings.Cut(strings.TrimSuffix(string(out), "\n"), "\t"); err != nil || got != word {
			t.Errorf("%q: %v %q, want %q", line[0], err, out, word)
		}
	}
}

// TestManualInGroff: the pages have no mistake that groff warns of.
func TestManualInGroff(t *testing.T) {
	for _, page := range []string{"tlsproxy.1", "tlsproxy.yaml.5"} {
		_, text, _ := tlsproxy("man", page)
		process := exec.Command("groff", "-man", "-Tutf8", "-ww", "-rCHECKSTYLE=3", "-P-cbou")
		process.Stdin = strings.NewReader(text)
		var warnings strings.Builder
		process.Stderr = &warnings
		out, err := process.Output()
		if err != nil || warnings.Len() > 0 || !strings.Contains(string(out), "SEE ALSO") {
			t.Errorf("%s: %v\n%s", page, err, &warnings)
		}
	}
}

// TestInstallInSh installs this test binary as the program, as a packager would.
func TestInstallInSh(t *testing.T) {
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	destination := t.TempDir()
	install := exec.Command("sh", "scripts/install.sh", self, destination, "/usr")
	install.Dir = repository
	if out, err := install.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %s", err, out)
	}
	for name, holds := range map[string]string{
		"bin/tlsproxy":                                  "",
		"share/man/man1/tlsproxy.1":                     ".TH TLSPROXY 1 ",
		"share/man/man5/tlsproxy.yaml.5":                ".TH TLSPROXY.YAML 5 ",
		"share/bash-completion/completions/tlsproxy":    "complete -F _tlsproxy tlsproxy",
		"share/zsh/site-functions/_tlsproxy":            "#compdef tlsproxy",
		"share/fish/vendor_completions.d/tlsproxy.fish": "complete --command tlsproxy",
		"share/doc/tlsproxy/tlsproxy.example.yaml":      example,
		"lib/sysusers.d/tlsproxy.conf":                  "u tlsproxy ",
		"lib/systemd/system/tlsproxy.socket":            "\nListenStream=443\n",
		"lib/systemd/system/tlsproxy.service":           "\nExecStart=/usr/bin/tlsproxy run -c /etc/tlsproxy/tlsproxy.yaml\n",
	} {
		text, err := os.ReadFile(filepath.Join(destination, "usr", name))
		if err != nil || !strings.Contains(string(text), holds) || strings.Contains(holds, "Exec") && strings.Contains(string(text), "/usr/local/") {
			t.Errorf("%s: %v, without %q", name, err, holds)
		}
	}
}
