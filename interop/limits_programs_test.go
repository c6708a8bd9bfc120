//go:build programs

package interop

import (
	"crypto/tls"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestInstalledLimits has curl and openssl meet the limits: that of a host as an alert,
// of one source as a closed connection, of a request's target as 414; and looks for curl's
// requests in the access log.
func TestInstalledLimits(t *testing.T) {
	e := startProxy(t, proxyOptions{log: "requests: true", extra: "hosts:\n" +
		"  - {names: [full.example], limits: {connections: 1}}\n" +
		"  - {names: [free.example], routes: [{path: /deep/, pool: default}]}\n" +
		"limits: {connections_per_source: 4, url_bytes: 128}\n"})
	hold := func(name string) error {
		c, err := tls.Dial("tcp", e.address, &tls.Config{ServerName: name, InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519}})
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return err
	}
	if err := hold("full.example"); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"-tls1_2", "-tls1_3"} {
		r := run(t, "", installed(t, "openssl"), "s_client", "-connect", e.address, "-servername", "full.example", version)
		if r.status == 0 || !strings.Contains(r.stderr, "alert internal error") {
			t.Errorf("openssl %s at a host that is full: exit %d, %s", version, r.status, r.stderr)
		}
	}
	for _, version := range []string{"--http1.1", "--http2"} {
		for path, want := range map[string]string{"/deep/x": "200", "/" + strings.Repeat("x", 128): "414"} {
			r := curlTo(t, e, "free.example", path, "--insecure", version, "--output", os.DevNull, "--write-out", "%{http_code}")
			if r.status != 0 || r.stdout != want {
				t.Errorf("curl %s %s: exit %d, %q %s", version, path, r.status, r.stdout, r.stderr)
			}
			var line struct {
				Status                      int
				SNI, ALPN, Version, Route   string
				Bytes, Handshake, Duration  int64
				Connection                  int
				BackendDuration             int64 `json:"backend_duration"`
				Resumed                     *bool
				Pool, Path, Cipher, Backend string
			}
			text := e.line(func(line string) bool { return strings.Contains(line, `"msg":"request"`) })
			if err := json.Unmarshal([]byte(text), &line); err != nil {
				t.Fatal(err)
			}
			alpn := map[string]string{"--http1.1": "http/1.1", "--http2": "h2"}[version]
			if line.SNI != "free.example" || line.ALPN != alpn || line.Version != "TLS 1.3" || line.Path != path || line.Handshake <= 0 || line.Bytes <= 0 || line.Resumed == nil || *line.Resumed {
				t.Errorf("%s", text)
			}
			if proxied := want == "200"; proxied != (line.Route == "/deep/" && line.Pool == "default" && line.BackendDuration > 0 && line.Backend != "") {
				t.Errorf("%s", text)
			}
		}
	}
	for held := 1; held < 4; { // places of connections that have just ended can be taken for a moment
		if hold("free.example") == nil {
			held++
		}
	}
	r := curlTo(t, e, "free.example", "/", "--insecure")
	if r.status == 0 {
		t.Errorf("curl got through beside four connections of its source: %s", r.stdout)
	}
	e.line(func(line string) bool { return strings.Contains(line, `"limit":"limits.connections_per_source"`) })
	e.alive()
}
