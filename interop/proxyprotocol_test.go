//go:build programs

package interop

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNginxIsTold: nginx as a backend reads who the client is at the head of
// connections in either version, before TLS and HTTP/2 too.
func TestNginxIsTold(t *testing.T) {
	dir := t.TempDir()
	plain, secure := freeAddress(t), freeAddress(t)
	conf := fmt.Sprintf(`daemon off;
master_process off;
pid %[1]s/pid;
error_log stderr notice;
events {}
http {
  access_log off;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
  server { listen %[2]s proxy_protocol; location / { return 200 "$server_protocol client=$proxy_protocol_addr of=$connection_requests\n"; } }
  server { listen %[3]s ssl http2 proxy_protocol; ssl_certificate %[4]s; ssl_certificate_key %[5]s; location / { return 200 "$server_protocol client=$proxy_protocol_addr of=$connection_requests\n"; } }
}
`, dir, plain, secure, pki.ServerCert, pki.ServerKey)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	n := start(t, installed(t, "nginx"), "-p", dir, "-c", file)
	n.line(func(line string) bool { return strings.Contains(line, "nginx/1.") }) // it listens

	file = filepath.Join(dir, "tlsproxy.yaml")
	conf = fmt.Sprintf(`listen: "127.0.0.1:0"
certificates: [{cert: %[1]q, key: %[2]q}]
backends: {urls: "http://%[3]s", proxy_protocol: v1}
pools:
  v2: {urls: "http://%[3]s", proxy_protocol: v2}
  tls: {urls: "https://%[4]s", protocol: h2, ca: %[5]q, tls: {server_name: localhost}, proxy_protocol: v2, health: {check: http, interval: 100ms}}
  raw: {urls: "tcp://%[4]s", proxy_protocol: v1}
hosts:
  - {names: v2.example, pool: v2}
  - {names: tls.example, pool: tls}
  - {names: raw.example, mode: passthrough, pool: raw}
log: {format: json}
`, pki.ServerCert, pki.ServerKey, plain, secure, pki.CA)
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	e := startProxyOn(t, file)
	_, port, _ := net.SplitHostPort(e.address)
	for _, test := range []struct{ host, protocol string }{{"localhost", "HTTP/1.1"}, {"v2.example", "HTTP/1.1"}, {"tls.example", "HTTP/2.0"}, {"raw.example", "HTTP/2.0"}} {
		for _, client := range []string{"127.0.0.4", "127.0.0.5"} {
			url := "https://" + test.host + ":" + port + "/"
			r := run(t, "", installed(t, "curl"), "--silent", "--show-error", "--noproxy", "*", "--insecure", "--interface", client,
				"--resolve", test.host+":"+port+":127.0.0.1", "--max-time", "60", url, url)
			want := fmt.Sprintf("%[1]s client=%[2]s of=1\n%[1]s client=%[2]s of=2\n", test.protocol, client)
			if r.status != 0 || r.stdout != want {
				t.Errorf("%s: exit %d, %q %s; want %q", test.host, r.status, r.stdout, r.stderr, want)
			}
		}
	}
	if strings.Contains(n.written(), "broken header") {
		t.Error(n.written())
	}
}
