package main

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// mainEnv makes the test binary be gotls.
const mainEnv = "GOTLS_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainEnv) == "1" {
		os.Unsetenv(mainEnv) // for what the go command starts
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// outcome is how a command ended.
type outcome struct {
	stdout, stderr string
	status         int
}

// command is a process that a test starts.
type command struct {
	dir   string
	env   []string
	stdin string
}

// gotls runs gotls itself.
func (c command) gotls(t *testing.T, args ...string) outcome {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c.env = append([]string{mainEnv + "=1"}, c.env...)
	return c.run(t, self, args...)
}

// run runs a program without the overlay that the tests may themselves be built
// with, and without a network.
func (c command) run(t *testing.T, path string, args ...string) outcome {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Dir = c.dir
	cmd.Env = append(append(os.Environ(), "GOFLAGS=", "GOPROXY=off", "GOWORK=off"), c.env...)
	cmd.Stdin = strings.NewReader(c.stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// succeeds fails the test unless the status is 0.
func (o outcome) succeeds(t *testing.T) outcome {
	t.Helper()
	if o.status != 0 {
		t.Fatalf("exit status %d\n%s%s", o.status, o.stdout, o.stderr)
	}
	return o
}

// fails fails the test unless the status and the words on stderr are those.
func (o outcome) fails(t *testing.T, status int, words ...string) {
	t.Helper()
	if o.status != status {
		t.Errorf("exit status %d, want %d\n%s%s", o.status, status, o.stdout, o.stderr)
	}
	for _, w := range words {
		if !strings.Contains(o.stderr, w) {
			t.Errorf("it does not say %q:\n%s", w, o.stderr)
		}
	}
}

// probe is a program that says whether it has the hook; it copies its input to its
// output and ends with the status that its first argument asks for.
const probe = `package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"strconv"
)

var word = "none"

func main() {
	_, ok := any(tls.CurveID(0)).(interface{ CtrutlsHookVersion() int })
	fmt.Printf("hook=%v tag=%s word=%s args=%q ppid=%d\n", ok, tag, word, os.Args[1:], os.Getppid())
	io.Copy(os.Stdout, os.Stdin)
	if len(os.Args) > 1 {
		status, err := strconv.Atoi(os.Args[1])
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stderr, "to standard error")
		os.Exit(status)
	}
}
`

// probeModule writes probe as a module of its own, which requires nothing.
func probeModule(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"go.mod":    "module example.com/probe\n\ngo 1.26.0\n",
		"probe.go":  probe,
		"plain.go":  "//go:build !special\n\npackage main\n\nconst tag = \"no\"\n",
		"tagged.go": "//go:build special\n\npackage main\n\nconst tag = \"special\"\n",
	})
	return dir
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func wantOutput(t *testing.T, got string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(got, w) {
			t.Errorf("the output is %q, want %q in it", got, w)
		}
	}
}

func TestRun(t *testing.T) {
	dir := probeModule(t)
	c := command{dir: dir}
	t.Run("the hook is there", func(t *testing.T) {
		wantOutput(t, c.gotls(t, "run", ".").succeeds(t).stdout, "hook=true tag=no word=none")
	})
	t.Run("and without gotls it is not", func(t *testing.T) {
		wantOutput(t, c.run(t, "go", "run", ".").succeeds(t).stdout, "hook=false")
	})
	t.Run("streams, arguments and status", func(t *testing.T) {
		c.stdin = "from standard input\n"
		o := c.gotls(t, "run", ".", "7", "-overlay=mine", "-C", "x")
		wantOutput(t, o.stdout, `args=["7" "-overlay=mine" "-C" "x"]`, "from standard input")
		o.fails(t, 1, "to standard error", "exit status 7") // as go run does
	})
	t.Run("go's own status", func(t *testing.T) {
		c.gotls(t, "build", "-nosuchflag").fails(t, 2, "-nosuchflag")
		c.gotls(t, "build", "./nowhere").fails(t, 1, "nowhere")
		c.gotls(t, "nosuchcommand").fails(t, 2, "nosuchcommand")
	})
	t.Run("GOFLAGS", func(t *testing.T) {
		c := command{dir: dir, env: []string{`GOFLAGS='-ldflags=-X "main.word=two words"' -tags=special`}}
		wantOutput(t, c.gotls(t, "run", ".").succeeds(t).stdout, "hook=true tag=special word=two words")
	})
	t.Run("GOFLAGS of go env -w", func(t *testing.T) {
		goenv := filepath.Join(t.TempDir(), "goenv")
		if err := os.WriteFile(goenv, []byte("GOFLAGS=-tags=special\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		c := command{dir: dir, env: []string{"GOENV=" + goenv}}
		wantOutput(t, c.gotls(t, "run", ".").succeeds(t).stdout, "hook=true tag=special")
	})
	t.Run("a cache with spaces and quotes", func(t *testing.T) {
		c := command{dir: dir, env: []string{"GOTLS_CACHE=" + filepath.Join(t.TempDir(), "it's a cache")}}
		wantOutput(t, c.gotls(t, "run", ".").succeeds(t).stdout, "hook=true")
	})
	t.Run("-C", func(t *testing.T) {
		c := command{dir: filepath.Dir(dir)}
		wantOutput(t, c.gotls(t, "-C", filepath.Base(dir), "run", ".").succeeds(t).stdout, "hook=true")
		wantOutput(t, c.gotls(t, "run", "-C="+filepath.Base(dir), ".").succeeds(t).stdout, "hook=true")
	})
	t.Run("another system", func(t *testing.T) {
		program := filepath.Join(t.TempDir(), "probe")
		c.gotls(t, "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0", "build", "-o", program, ".").succeeds(t)
		f, err := elf.Open(program)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if f.Machine != elf.EM_AARCH64 {
			t.Errorf("the program is for %v", f.Machine)
		}
	})
	t.Run("a user's overlay", func(t *testing.T) {
		write(t, dir, map[string]string{
			"overlay.json": `{"Replace": {"plain.go": "other.txt"}}`,
			"other.txt":    "//go:build !special\n\npackage main\n\nconst tag = \"replaced\"\n",
		})
		for _, args := range [][]string{{"run", "-overlay=overlay.json", "."}, {"run", "-overlay", "overlay.json", "."}} {
			wantOutput(t, c.gotls(t, args...).succeeds(t).stdout, "hook=true tag=replaced")
		}
		c := command{dir: dir, env: []string{"GOFLAGS=-overlay=overlay.json"}}
		wantOutput(t, c.gotls(t, "run", ".").succeeds(t).stdout, "hook=true tag=replaced")
	})
}

func TestListAndTest(t *testing.T) {
	dir := probeModule(t)
	write(t, dir, map[string]string{"probe_test.go": `package main

import (
	"crypto/tls"
	"os/exec"
	"strings"
	"testing"
)

func TestHook(t *testing.T) {
	if _, ok := any(tls.CurveID(0)).(interface{ CtrutlsHookVersion() int }); !ok {
		t.Error("no hook")
	}
	// What a test starts gets the hook too.
	out, err := exec.Command("go", "run", ".").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "hook=true") {
		t.Errorf("%v: %s", err, out)
	}
}
`})
	c := command{dir: dir}
	c.gotls(t, "test", ".").succeeds(t)
	c.gotls(t, "vet", ".").succeeds(t)
	wantOutput(t, c.gotls(t, "list", "-f", "{{.GoFiles}}", "crypto/tls").succeeds(t).stdout, " "+hookFile+" ")
	c.run(t, "go", "test", ".").fails(t, 1)
}

// A build has no trace of where gotls keeps its files.
func TestReproducible(t *testing.T) {
	dir := probeModule(t)
	var programs [2][]byte
	for i := range programs {
		cache, program := t.TempDir(), filepath.Join(t.TempDir(), "probe")
		c := command{dir: dir, env: []string{"GOTLS_CACHE=" + cache}}
		c.gotls(t, "build", "-o", program, ".").succeeds(t)
		var err error
		if programs[i], err = os.ReadFile(program); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(programs[i], []byte(cache)) {
			t.Errorf("the program holds the cache's path")
		}
	}
	if !bytes.Equal(programs[0], programs[1]) {
		t.Error("two caches give two programs")
	}
}

// Many gotls at once, on an empty cache: none sees half of it.
func TestConcurrentRuns(t *testing.T) {
	dir := probeModule(t)
	c := command{dir: dir, env: []string{"GOTLS_CACHE=" + t.TempDir()}}
	paths := make([]string, 8)
	var wg sync.WaitGroup
	for i := range paths {
		wg.Go(func() {
			paths[i] = c.gotls(t, "path").succeeds(t).stdout
			for from, to := range readOverlay(t, strings.TrimSpace(paths[i])) {
				if text, err := os.ReadFile(to); err != nil || !bytes.HasSuffix(text, []byte("\n")) {
					t.Errorf("%s: %d bytes, %v", from, len(text), err)
				}
			}
		})
	}
	wg.Wait()
	for _, p := range paths {
		if p != paths[0] {
			t.Errorf("%s and %s", p, paths[0])
		}
	}
}

func TestEnv(t *testing.T) {
	dir := probeModule(t)
	c := command{dir: dir, env: []string{"GOFLAGS=-tags=special", "GOTLS_CACHE=" + filepath.Join(t.TempDir(), "it's mine")}}
	t.Run("shell", func(t *testing.T) {
		lines := c.gotls(t, "env").succeeds(t).stdout
		script := lines + "go run .\n" + // and again, in the shell that it set up:
			`eval "$(` + mainEnv + `=1 "$SELF" env)"` + "\ngo run .\n"
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		shell := command{dir: dir, env: append(c.env, "SELF="+self)}
		out := shell.run(t, "sh", "-euc", script).succeeds(t).stdout
		if n := strings.Count(out, "hook=true tag=special"); n != 2 {
			t.Errorf("the output is %q", out)
		}
	})
	t.Run("json", func(t *testing.T) {
		var set map[string]string
		if err := json.Unmarshal([]byte(c.gotls(t, "env", "-json").succeeds(t).stdout), &set); err != nil {
			t.Fatal(err)
		}
		var env []string
		for name, value := range set {
			env = append(env, name+"="+value)
			if got := c.gotls(t, "env", name).succeeds(t).stdout; got != value+"\n" {
				t.Errorf("env %s prints %q, want %q", name, got, value)
			}
		}
		wantOutput(t, command{dir: dir, env: env}.run(t, "go", "run", ".").succeeds(t).stdout, "hook=true tag=special")
	})
	c.gotls(t, "env", "GOOS").fails(t, 1, "gotls: ", "GOFLAGS, GOROOT, GOTOOLCHAIN and PATH")
	c.gotls(t, "env", "GOROOT", "PATH").fails(t, 1, "gotls: ")
}

func TestCheck(t *testing.T) {
	out := command{dir: t.TempDir()}.gotls(t, "check").succeeds(t).stdout
	for _, a := range anchors {
		wantOutput(t, out, "  "+a.name+" ")
	}
	wantOutput(t, out, fmt.Sprintf("%d of %[1]d anchors match once", len(anchors)), "compiles with the hook")
}

// A toolchain whose crypto/tls has changed is refused: by name, with the anchor
// and with what to do.
func TestChangedToolchain(t *testing.T) {
	goroot := fakeRoot(t, func(files map[string][]byte) {
		name := "key_schedule.go"
		files[name] = bytes.ReplaceAll(files[name], []byte("func keyExchangeForCurveID("), []byte("func keyExchangeFor("))
	})
	c := command{dir: t.TempDir(), env: []string{"GOROOT=" + goroot, "GOTOOLCHAIN=local"}}
	words := []string{"gotls: cannot patch crypto/tls of go1.", goroot, `anchor "key exchange"`, "go get -tool"}
	c.gotls(t, "build", "crypto/tls").fails(t, 1, words...)
	o := c.gotls(t, "check")
	o.fails(t, 1, words...)
	wantOutput(t, o.stdout, "NOT FOUND", fmt.Sprintf("%d of %d anchors", len(anchors)-1, len(anchors)))
}

// Where every anchor matches and what it says does not compile, check says so.
func TestUncompilableToolchain(t *testing.T) {
	goroot := fakeRoot(t, func(files map[string][]byte) {
		name := "handshake_server_tls13.go"
		files[name] = bytes.ReplaceAll(files[name], []byte("hs.ctx"), []byte("hs.context"))
		files[name] = bytes.Replace(files[name], []byte("ctx             context.Context"), []byte("context context.Context"), 1)
		files["handshake_server.go"] = bytes.ReplaceAll(files["handshake_server.go"], []byte("ctx:"), []byte("context:"))
	})
	c := command{dir: t.TempDir(), env: []string{"GOROOT=" + goroot, "GOTOOLCHAIN=local"}}
	c.gotls(t, "check").fails(t, 1, "does not compile with the hook", "hs.ctx undefined", "go get -tool")
}

// fakeRoot is the installed GOROOT, by links, but for crypto/tls, whose files
// change may change.
func fakeRoot(t *testing.T, change func(files map[string][]byte)) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	real, fake := strings.TrimSpace(string(out)), filepath.Join(t.TempDir(), "go")
	// Everything beside the path from the root to the package is a link.
	for _, dir := range []string{".", "src", "src/crypto", "src/crypto/tls"} {
		if err := os.MkdirAll(filepath.Join(fake, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(filepath.Join(real, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if name := filepath.ToSlash(filepath.Join(dir, e.Name())); name == "src" || name == "src/crypto" || name == "src/crypto/tls" || dir == "src/crypto/tls" && !e.IsDir() {
				continue
			}
			if err := os.Symlink(filepath.Join(real, dir, e.Name()), filepath.Join(fake, dir, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	files := make(map[string][]byte)
	tls := os.DirFS(tlsDir(real))
	names, err := fs.Glob(tls, "*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if files[name], err = fs.ReadFile(tls, name); err != nil {
			t.Fatal(err)
		}
	}
	change(files)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(tlsDir(fake), name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return fake
}

func TestUsage(t *testing.T) {
	c := command{dir: t.TempDir()}
	wantOutput(t, c.gotls(t, "help").succeeds(t).stdout, "gotls check", "go get -tool")
	c.gotls(t).fails(t, 2, "gotls build|run|test")
	c.gotls(t, "-x").fails(t, 2, "gotls build|run|test")
	c.gotls(t, "check", "this").fails(t, 1, "gotls: check takes no arguments")
	c.gotls(t, "path", "this").fails(t, 1, "gotls: path takes no arguments")
	command{dir: c.dir, env: []string{"PATH=" + c.dir}}.gotls(t, "build").fails(t, 1, "gotls: no go command in PATH")
	command{dir: c.dir}.gotls(t, "-C", "nowhere", "build").fails(t, 1, "nowhere")
	command{dir: c.dir, env: []string{"GOFLAGS=-v '-x"}}.gotls(t, "list", "std").fails(t, 1, "gotls: GOFLAGS")
}
