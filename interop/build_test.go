package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// build is how a set of programs is built.
type build struct {
	name     string
	hook     bool // by gotls; otherwise by the plain go command, without any overlay
	tags     string
	race     bool
	packages []string
}

// The builds. The client is the one that users get: static, without a GPU. What
// listens is built with the race detector if this test is.
var (
	hookClient = build{name: "ctrutls-client", hook: true, tags: "nogpu", packages: []string{"./client"}}
	hookServer = build{name: "ctrutls-server", hook: true, race: raceEnabled, packages: []string{"./server"}}
	stockBuild = build{name: "go", tags: "nogpu", packages: []string{"./client", "./server"}}
	proxyBuild = build{name: "proxy", hook: true, race: raceEnabled, packages: []string{"../cmd/tlsproxy"}}
)

// built remembers the result of each build by its name.
var built = struct {
	sync.Mutex
	results map[string]func() (string, error)
}{results: make(map[string]func() (string, error))}

// program builds b, once, and returns the path of the program called name.
func program(t testing.TB, b build, name string) string {
	t.Helper()
	built.Lock()
	make := built.results[b.name]
	if make == nil {
		make = sync.OnceValues(b.run)
		built.results[b.name] = make
	}
	built.Unlock()
	dir, err := make()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// run builds into a folder of its own and returns that.
func (b build) run() (string, error) {
	dir := filepath.Join(scratch, "bin", b.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	args := b.goCommand("build", "-o", dir+string(filepath.Separator))
	if b.race {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, b.packages...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b.race {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(cmd.Args[1:], " "), err, out)
	}
	return dir, nil
}

// goCommand returns the arguments of the go command that runs command as b is
// built. This test runs under gotls itself, whose overlay is in GOFLAGS; an
// empty -overlay takes it away for a stock build.
func (b build) goCommand(command string, args ...string) []string {
	head := []string{command, "-overlay="}
	if b.hook {
		head = []string{"tool", "gotls", command}
	}
	if b.tags != "" {
		head = append(head, "-tags", b.tags)
	}
	return append(head, args...)
}

// With -tags nogpu nothing that reaches for a GPU is compiled in.
func TestClientLeavesGPUOut(t *testing.T) {
	cmd := exec.Command("go", hookClient.goCommand("list", "-deps", "./client")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	const module = "github.com/ctrutls/ctrutls/"
	for _, dep := range deps {
		if strings.HasPrefix(dep, module+"gpu") || strings.HasPrefix(dep, module+"kernels") || strings.Contains(dep, "purego") {
			t.Errorf("the client depends on %s", dep)
		}
	}
	for _, want := range []string{module + "tlsext", module + "provider", "crypto/tls"} {
		if !slices.Contains(deps, want) {
			t.Errorf("%s is not among the client's packages: the list is not what it should be", want)
		}
	}
}
