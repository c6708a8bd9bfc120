package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// The minor versions of Go whose crypto/tls this gotls is tested with. An older
// one has no keyExchange interface to hook into. A newer one may keep every
// anchor and still mean something else by it, so it has to be asked for.
const (
	oldestGo = 26
	newestGo = 27
	// untestedEnv lets gotls patch a Go newer than newestGo.
	untestedEnv = "GOTLS_UNTESTED_GO"
)

// updateAdvice says how to get another gotls.
const updateAdvice = "go get -tool github.com/ctrutls/ctrutls/tlsext/gotls@latest"

// toolchain is what the go command says of itself in the folder it will run in:
// go.mod, go.work, GOTOOLCHAIN and GOROOT have their say before gotls does.
type toolchain struct {
	GOROOT     string
	GOVERSION  string
	GOMODCACHE string
	GOCACHE    string
	GOFLAGS    string

	dir string // the folder that the go command runs in
}

// findToolchain asks the go command in PATH; dir is the value of a -C flag.
func findToolchain(dir string) (*toolchain, error) {
	tc := &toolchain{}
	var err error
	if tc.dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "env", "-json", "GOROOT", "GOVERSION", "GOMODCACHE", "GOCACHE", "GOFLAGS")
	cmd.Dir = tc.dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, errors.New("no go command in PATH; install Go 1.26 or later")
	case err != nil:
		return nil, fmt.Errorf("go env, in %s: %w\n%s", tc.dir, err, strings.TrimSpace(stderr.String()))
	}
	if err := json.Unmarshal(out, tc); err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	return tc, nil
}

var goVersion = regexp.MustCompile(`\bgo1\.(\d+)`)

// supported refuses the Go versions that gotls cannot, or should not, patch.
func (tc *toolchain) supported() error {
	m := goVersion.FindStringSubmatch(tc.GOVERSION)
	if m == nil {
		return fmt.Errorf("no Go version in %q, which is what go env GOVERSION says", tc.GOVERSION)
	}
	minor, err := strconv.Atoi(m[1])
	switch {
	case err != nil:
		return err
	case minor < oldestGo:
		return fmt.Errorf("%s is too old: the hook needs Go 1.%d or later; install it, or set GOTOOLCHAIN=go1.%[2]d.0",
			tc.GOVERSION, oldestGo)
	case minor > newestGo && os.Getenv(untestedEnv) != "1":
		return fmt.Errorf("%s is newer than this gotls knows (Go 1.%d to 1.%d); update gotls:\n\t%s\nor, to try it all the same, set %s=1 and run gotls check first",
			tc.GOVERSION, oldestGo, newestGo, updateAdvice, untestedEnv)
	}
	return nil
}

// patch returns the patched files of crypto/tls and where each anchor was found.
func (tc *toolchain) patch() (map[string][]byte, []matched, error) {
	files, report, err := patchTLS(os.DirFS(tlsDir(tc.GOROOT)))
	if err != nil {
		err = fmt.Errorf("cannot patch crypto/tls of %s (%s):\n%w\nThis gotls does not know that crypto/tls. Update gotls:\n\t%s\nor use a release of Go that it knows, such as GOTOOLCHAIN=go1.%d.0",
			tc.GOVERSION, tc.GOROOT, err, updateAdvice, newestGo)
	}
	return files, report, err
}

// cacheDir is where gotls keeps what it writes. It may be removed at any time.
func (tc *toolchain) cacheDir() (string, error) {
	if dir := os.Getenv("GOTLS_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	if dir, err := os.UserCacheDir(); err == nil {
		dir = filepath.Join(dir, "ctrutls", "gotls")
		if os.MkdirAll(dir, 0o755) == nil {
			return dir, nil
		}
	}
	// Without a home, or with one that cannot be written to, the go command
	// works as long as it is told where its own cache is.
	if filepath.IsAbs(tc.GOCACHE) {
		dir := filepath.Join(tc.GOCACHE, "ctrutls-gotls")
		if os.MkdirAll(dir, 0o755) == nil {
			return dir, nil
		}
	}
	return "", errors.New("no folder to write to: set HOME, XDG_CACHE_HOME or GOTLS_CACHE to one that exists")
}

// useStableRoot makes GOROOT a path outside GOMODCACHE. The go command refuses
// an overlay of files beneath GOMODCACHE, and the toolchains that it downloads
// live there; a symbolic link to one is good enough for it.
func (tc *toolchain) useStableRoot(cache string) error {
	if !within(tc.GOMODCACHE, tc.GOROOT) {
		return nil
	}
	sum := sha256.Sum256([]byte(tc.GOROOT))
	link := filepath.Join(cache, "goroot", tc.folder()+"-"+hex.EncodeToString(sum[:4]))
	if target, err := os.Readlink(link); err != nil || target != tc.GOROOT {
		if err := replaceLink(link, tc.GOROOT); err != nil {
			return fmt.Errorf("the go command allows no overlay of a downloaded toolchain, and a link to it cannot be made: %w\nInstall %s outside GOMODCACHE instead", err, tc.GOVERSION)
		}
	}
	tc.GOROOT = link
	return nil
}

// folder is the toolchain's version as a file name.
func (tc *toolchain) folder() string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>| `, r) {
			return '_'
		}
		return r
	}, tc.GOVERSION)
}

// replaceLink makes link point to target; whoever looks finds the old link or
// the new one.
func replaceLink(link, target string) error {
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(link), ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fresh := filepath.Join(dir, "link")
	if err := os.Symlink(target, fresh); err != nil {
		return err
	}
	return os.Rename(fresh, link)
}

// goCommand is the toolchain's own go command. It is run in place of the one in
// PATH: that one might choose another toolchain again.
func (tc *toolchain) goCommand() (string, error) {
	name := "go"
	if runtime.GOOS == "windows" {
		name = "go.exe"
	}
	path := filepath.Join(tc.GOROOT, "bin", name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return exec.LookPath("go")
}
