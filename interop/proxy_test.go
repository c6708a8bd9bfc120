package interop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// proxyOptions is what a test wants of tlsproxy beyond its defaults.
type proxyOptions struct {
	groups   []string // in order of preference; none means the proxy's default
	log      string   // a line of YAML under log
	clientCA string   // the file of the authority whose certificates clients need; "": they need none
	extra    string   // lines of YAML at the top level
}

// proxyFiles numbers the configuration files.
var proxyFiles atomic.Int64

// startProxy runs tlsproxy in front of an HTTP backend that answers every
// request with its path and protocol.
func startProxy(t testing.TB, o proxyOptions) *endpoint {
	t.Helper()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "backend: %s %s", r.Proto, r.URL.Path)
	}))
	t.Cleanup(backend.Close)
	return startProxyOn(t, o.write(t, backend.URL))
}

// startProxyOn runs tlsproxy with a configuration file that has it listen on one
// address and log JSON.
func startProxyOn(t testing.TB, file string) *endpoint {
	t.Helper()
	e := &endpoint{process: start(t, program(t, proxyBuild, "tlsproxy"), "run", "-c", file)}
	var entry struct{ Address string }
	line := e.line(func(line string) bool { return strings.Contains(line, `"msg":"listening"`) })
	if err := json.Unmarshal([]byte(line), &entry); err != nil {
		t.Fatalf("%v in %s", err, line)
	}
	e.address = entry.Address
	return e
}

// write makes the configuration file and returns its name.
func (o proxyOptions) write(t testing.TB, backend string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "listen: [\"127.0.0.1:0\"]\n")
	fmt.Fprintf(&b, "certificates:\n  - cert: %q\n    key: %q\n", pki.ServerCert, pki.ServerKey)
	fmt.Fprintf(&b, "backends:\n  urls: [%q]\n", backend)
	fmt.Fprintf(&b, "log:\n  format: json\n  %s\n", o.log)
	if len(o.groups) > 0 {
		fmt.Fprintf(&b, "tls:\n  groups: [%s]\n", strings.Join(o.groups, ", "))
		if o.clientCA != "" {
			fmt.Fprintf(&b, "  client_auth: {mode: require, ca: %q}\n", o.clientCA)
		}
	}
	b.WriteString(o.extra)
	file := filepath.Join(scratch, fmt.Sprintf("proxy-%d.yaml", proxyFiles.Add(1)))
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
