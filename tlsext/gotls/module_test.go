package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const modulePath = "github.com/ctrutls/ctrutls"

// user is a program that a user of the module would write, with the README's
// words: an HTTP/2 server and client with the group.
const user = `package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/ctrutls/ctrutls/provider"
	"github.com/ctrutls/ctrutls/tlsext"
)

func main() {
	p, err := provider.Open(provider.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	if err := tlsext.Register(p); err != nil {
		log.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Proto, " ", r.TLS.CurveID)
	}))
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{CurvePreferences: tlsext.Preferences(tlsext.X25519CTRUPrime761)}
	server.StartTLS()
	defer server.Close()
	client := server.Client()
	client.Transport.(*http.Transport).TLSClientConfig.CurvePreferences = tlsext.Preferences(tlsext.X25519CTRUPrime761)
	response, err := client.Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, %s %v\n", body, response.Proto, response.TLS.CurveID)
}
`

const userOutput = "HTTP/2.0 X25519CTRUPrime761, HTTP/2.0 X25519CTRUPrime761\n"

// userModule writes user as a module of its own, outside the repository.
func userModule(t *testing.T) command {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, map[string]string{"main.go": user})
	c := command{dir: dir, env: []string{"GOFLAGS=-mod=mod"}}
	c.run(t, "go", "mod", "init", "example.com/user").succeeds(t)
	return c
}

func repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// A second module uses the group with what the README says for an unpublished
// module. GOFLAGS=-mod=mod, and the module cache, stand in for go mod tidy, which
// would want a network.
func TestSecondModule(t *testing.T) {
	c := userModule(t)
	c.run(t, "go", "mod", "edit", "-require="+modulePath+"@v0.0.0", "-replace="+modulePath+"="+repository(t),
		"-tool="+modulePath+"/tlsext/gotls").succeeds(t)
	useSums(t, c)
	checkUser(t, c)
}

// useSums gives a module the checksums of this one's dependencies: there is no
// checksum database without a network.
func useSums(t *testing.T, c command) {
	t.Helper()
	sums, err := os.ReadFile(filepath.Join(repository(t), "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, c.dir, map[string]string{"go.sum": string(sums)})
}

// checkUser runs the program by go tool gotls, in the ways that the README and
// the documentation name, and without it.
func checkUser(t *testing.T, c command) {
	t.Helper()
	o := c.run(t, "go", "tool", "gotls", "run", ".").succeeds(t)
	if o.stdout != userOutput {
		t.Errorf("the program says %q, want %q", o.stdout, userOutput)
	}
	c.run(t, "go", "tool", "gotls", "check").succeeds(t)
	c.run(t, "go", "tool", "gotls", "build", "./...").succeeds(t)
	o = c.run(t, "sh", "-euc", `eval "$(go tool gotls env)"; go run .`).succeeds(t)
	if o.stdout != userOutput {
		t.Errorf("under gotls env the program says %q, want %q", o.stdout, userOutput)
	}
	arm := filepath.Join(t.TempDir(), "arm")
	c.run(t, "go", "tool", "gotls", "GOOS=linux", "GOARCH=arm64", "build", "-o", arm, ".").succeeds(t)
	c.run(t, "go", "run", ".").fails(t, 1, "tlsext: ", "go get -tool "+modulePath+"/tlsext/gotls", "go tool gotls build ./...")
}

// The published module's words: go get -tool, from a proxy that is a folder.
func TestGoGetTool(t *testing.T) {
	const version = "v0.99.0"
	proxy := t.TempDir()
	publish(t, proxy, version)
	cache := t.TempDir() // what is downloaded must not stay in the user's module cache
	c := userModule(t)
	defer func() { c.run(t, "go", "clean", "-modcache").succeeds(t) }() // its files are read-only
	out, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	c.env = append(c.env, "GOMODCACHE="+cache, "GOSUMDB=off",
		"GOPROXY=file://"+filepath.ToSlash(proxy)+",file://"+filepath.ToSlash(filepath.Join(strings.TrimSpace(string(out)), "cache", "download")))
	useSums(t, c)
	c.run(t, "go", "get", "-tool", modulePath+"/tlsext/gotls@"+version).succeeds(t)
	checkUser(t, c)
}

// publish writes this module into a folder that serves as a module proxy
// (go.dev/ref/mod#goproxy-protocol): what a released version would hold.
func publish(t *testing.T, proxy, version string) {
	t.Helper()
	root := repository(t)
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, nested := os.Stat(filepath.Join(root, path, "go.mod"))
			if path != "." && (nested == nil || strings.HasPrefix(d.Name(), ".") || path == "bin" || path == "build") {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return err
		}
		w, err := z.Create(fmt.Sprintf("%s@%s/%s", modulePath, version, path))
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(proxy, modulePath, "@v"), map[string]string{
		"list":            version + "\n",
		version + ".info": fmt.Sprintf(`{"Version": %q, "Time": "2026-01-01T00:00:00Z"}`, version),
		version + ".mod":  string(mod),
		version + ".zip":  archive.String(),
	})
}

// A program whose hook is another gotls's says so when it registers.
func TestHookOfAnotherVersion(t *testing.T) {
	c := userModule(t)
	c.run(t, "go", "mod", "edit", "-require="+modulePath+"@v0.0.0", "-replace="+modulePath+"="+repository(t)).succeeds(t)
	useSums(t, c)
	tc, err := findToolchain(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	files, _, err := tc.patch()
	if err != nil {
		t.Fatal(err)
	}
	hook := bytes.ReplaceAll(hookText, []byte("CtrutlsRegisterV1"), []byte("CtrutlsRegisterV9"))
	files[hookFile] = bytes.Replace(hook, []byte("const ctrutlsHook = 1"), []byte("const ctrutlsHook = 9"), 1)
	t.Setenv("GOTLS_CACHE", t.TempDir())
	h, err := tc.install(files, "")
	if err != nil {
		t.Fatal(err)
	}
	c.env = append(c.env, "GOFLAGS=-mod=mod -overlay="+h.overlay, "GOROOT="+h.GOROOT, "GOTOOLCHAIN=local")
	c.run(t, "go", "run", ".").fails(t, 1, "tlsext: the hook in crypto/tls is that of another version of gotls (9)", "go get -tool "+modulePath+"/tlsext/gotls")
}
