package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const usage = `gotls runs the go command with the ctrutls hook in crypto/tls.

	gotls build|run|test|vet|install|list|generate|tool ... [go's arguments]
		runs the go command of that name with the hook
	gotls env [-json | NAME]
		prints what a shell, a CI job or an editor has to set for the same
	gotls check
		tells whether the toolchain's crypto/tls has every anchor of the hook,
		and whether it compiles with it
	gotls path
		writes the overlay and prints its path
	gotls help

From a module that requires github.com/ctrutls/ctrutls:

	go get -tool github.com/ctrutls/ctrutls/tlsext/gotls
	go tool gotls build ./...

The toolchain is the one that the go command would use here: go.mod's toolchain
line, GOTOOLCHAIN and GOROOT work as ever, and -C DIR may come first. Variables
may too; to build for another system, name it behind gotls, not before go tool,
which would build gotls itself for it:

	go tool gotls GOOS=linux GOARCH=arm64 build ./...

	GOTLS_CACHE        where to write; the user's cache folder if unset
	GOTLS_UNTESTED_GO  1: try a Go that is newer than this gotls knows
`

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with its surroundings given. It returns the exit status, unless
// the go command takes the process over.
func run(args []string, stdout, stderr io.Writer) int {
	err := dispatch(args, stdout)
	var status exitStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	case errors.Is(err, errUsage):
		fmt.Fprint(stderr, usage)
		return 2
	}
	fmt.Fprintf(stderr, "gotls: %v\n", err)
	return 1
}

var errUsage = errors.New("usage")

// exitStatus is that of a go command which said itself what was wrong.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

func dispatch(args []string, stdout io.Writer) error {
	args, err := takeVariables(args)
	if err != nil {
		return err
	}
	dir, rest := takeChdir(args)
	if len(rest) == 0 {
		return errUsage
	}
	command, rest := rest[0], rest[1:]
	switch {
	case command == "help" || command == "-h" || command == "-help" || command == "--help":
		_, err := io.WriteString(stdout, usage)
		return err
	case strings.HasPrefix(command, "-"):
		return errUsage
	case command == "check":
		return noArguments(command, rest, func() error { return check(dir, stdout) })
	case command == "path":
		return noArguments(command, rest, func() error { return printPath(dir, stdout) })
	case command == "env":
		return printEnv(dir, rest, stdout)
	}
	return runGo(dir, args)
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// takeVariables sets the variables in front of the command, as env(1) would, and
// returns the other arguments. GOOS and GOARCH are why: in the environment of "go
// tool gotls" they make the go command build gotls for a system that cannot run it.
func takeVariables(args []string) ([]string, error) {
	for len(args) > 0 && assignment.MatchString(args[0]) {
		name, value, _ := strings.Cut(args[0], "=")
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
		args = args[1:]
	}
	return args, nil
}

func noArguments(command string, args []string, do func() error) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments, got %q", command, args)
	}
	return do()
}

// hooked is a toolchain whose crypto/tls an overlay gives the hook.
type hooked struct {
	*toolchain
	overlay string     // path of the overlay
	goflags string     // GOFLAGS with the overlay in it
	env     []variable // what to set for the go command
}

type variable struct{ name, value string }

// hook patches the toolchain that the go command uses in dir. users is an
// overlay that the user gave in the command's arguments.
func hook(dir, users string) (*hooked, error) {
	tc, err := findToolchain(dir)
	if err != nil {
		return nil, err
	}
	if err := tc.supported(); err != nil {
		return nil, err
	}
	files, _, err := tc.patch()
	if err != nil {
		return nil, err
	}
	return tc.install(files, users)
}

// install writes the overlay and says what to set so that the go command uses it.
func (tc *toolchain) install(files map[string][]byte, users string) (*hooked, error) {
	cache, err := tc.cacheDir()
	if err != nil {
		return nil, err
	}
	if err := tc.useStableRoot(cache); err != nil {
		return nil, err
	}
	fields, err := splitGoflags(tc.GOFLAGS)
	if err != nil {
		return nil, err
	}
	inherited, fields := takeOverlay(fields)
	if users == "" {
		users = inherited // as in go: an argument wins over GOFLAGS
	}
	h := &hooked{toolchain: tc}
	if h.overlay, err = tc.writeOverlay(cache, files, users); errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w; set GOTLS_CACHE to a folder that can be written to", err)
	} else if err != nil {
		return nil, err
	}
	if h.goflags, err = joinGoflags(append(fields, "-overlay="+h.overlay)); err != nil {
		return nil, err
	}
	h.env = []variable{
		{"GOFLAGS", h.goflags},
		{"GOROOT", tc.GOROOT},
		// An overlay is for one GOROOT, and the go command ignores it without a
		// word for another: better that it refuses to switch.
		{"GOTOOLCHAIN", "local"},
	}
	return h, nil
}

// binDir holds the toolchain's commands.
func (h *hooked) binDir() string { return filepath.Join(h.GOROOT, "bin") }

// path is PATH with the toolchain's commands first, so that what the go command
// starts, such as a test that calls it, uses the same toolchain.
func (h *hooked) path() string {
	return h.binDir() + string(filepath.ListSeparator) + os.Getenv("PATH")
}

// runGo runs the go command with the hook.
func runGo(dir string, args []string) error {
	users, args := takeOverlayArg(args)
	h, err := hook(dir, users)
	if err != nil {
		return err
	}
	path, err := h.goCommand()
	if err != nil {
		return err
	}
	for _, v := range h.env {
		os.Setenv(v.name, v.value)
	}
	os.Setenv("PATH", h.path())
	return become(path, args)
}

// check tells where each anchor was found and whether the patched package
// compiles.
func check(dir string, stdout io.Writer) error {
	tc, err := findToolchain(dir)
	if err != nil {
		return err
	}
	files, report, patchErr := tc.patch()
	fmt.Fprintf(stdout, "%s  %s\n", tc.GOVERSION, tlsDir(tc.GOROOT))
	found := 0
	for _, m := range report {
		where := m.at
		if m.err == nil {
			found++
		} else {
			where = "NOT FOUND"
		}
		fmt.Fprintf(stdout, "  %-40s %s\n", m.anchor.name, where)
	}
	fmt.Fprintf(stdout, "%d of %d anchors match once\n", found, len(anchors))
	if err := tc.supported(); err != nil {
		return err
	}
	if patchErr != nil {
		return patchErr
	}
	h, err := tc.install(files, "")
	if err != nil {
		return err
	}
	if err := h.compile(); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "crypto/tls compiles with the hook")
	return nil
}

// compile builds the patched crypto/tls.
func (h *hooked) compile() error {
	path, err := h.goCommand()
	if err != nil {
		return err
	}
	cmd := exec.Command(path, "build", "crypto/tls")
	cmd.Dir = h.dir
	cmd.Env = os.Environ()
	for _, v := range h.env {
		cmd.Env = append(cmd.Env, v.name+"="+v.value)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("crypto/tls of %s does not compile with the hook: %w\n%s\nUpdate gotls:\n\t%s", h.GOVERSION, err, out, updateAdvice)
	}
	return nil
}

func printPath(dir string, stdout io.Writer) error {
	h, err := hook(dir, "")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, h.overlay)
	return err
}

// printEnv prints the variables as lines for a POSIX shell, as JSON, or one
// variable's bare value.
func printEnv(dir string, args []string, stdout io.Writer) error {
	if len(args) > 1 {
		return fmt.Errorf("env takes -json or one variable's name, got %q", args)
	}
	h, err := hook(dir, "")
	if err != nil {
		return err
	}
	if len(args) == 0 {
		for _, v := range h.env {
			fmt.Fprintf(stdout, "export %s=%s\n", v.name, shellQuote(v.value))
		}
		_, err := fmt.Fprintf(stdout, "export PATH=%s:\"$PATH\"\n", shellQuote(h.binDir()))
		return err
	}
	all := append(slices.Clone(h.env), variable{"PATH", h.path()})
	if args[0] == "-json" || args[0] == "--json" {
		object := make(map[string]string)
		for _, v := range all {
			object[v.name] = v.value
		}
		enc := json.NewEncoder(stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "\t")
		return enc.Encode(object)
	}
	for _, v := range all {
		if v.name == args[0] {
			_, err := fmt.Fprintln(stdout, v.value)
			return err
		}
	}
	return fmt.Errorf("env knows GOFLAGS, GOROOT, GOTOOLCHAIN and PATH, not %q", args[0])
}

// shellQuote quotes s for a POSIX shell.
func shellQuote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
