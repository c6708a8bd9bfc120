//go:build programs

package interop

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// nginx is a backend as operators have it: one process with a server for each
// way in which the proxy speaks with backends.
type nginx struct {
	*process
	plain, other string // HTTP/1.1, two servers
	h2c          string
	mutual       string // HTTP/2 over TLS, for clients with a certificate
	dir          string // of its files
	own          string // HTTP/1.1 over TLS with a certificate of its own
	ownCert      string // that one's file; its name is raw.example
	file         []byte // what it serves as /file
}

// startNginx runs it with files in a folder of the test.
func startNginx(t *testing.T) *nginx {
	t.Helper()
	dir := t.TempDir()
	n := &nginx{dir: dir, ownCert: filepath.Join(dir, "own.pem"), file: make([]byte, 8<<20)}
	rand.Read(n.file)
	own := run(t, "", installed(t, "openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
		"-subj", "/CN=raw.example", "-addext", "subjectAltName=DNS:raw.example", "-keyout", filepath.Join(dir, "own.key"), "-out", n.ownCert)
	if own.status != 0 {
		t.Fatal(own.stderr)
	}
	for _, address := range []*string{&n.plain, &n.other, &n.h2c, &n.mutual, &n.own} {
		*address = freeAddress(t)
	}
	answer := func(name string) string {
		return fmt.Sprintf(`location ~ /upload$ { root %s; dav_methods PUT; create_full_put_path on; }
    location / { return 200 "%s $server_protocol $request_uri for=$http_x_forwarded_for host=$host client=$ssl_client_s_dn\n"; }
    location /file { root %s; }`, dir, name, dir)
	}
	conf := fmt.Sprintf(`daemon off;
master_process off;
pid %[1]s/pid;
error_log stderr notice;
events {}
http {
  access_log off;
  client_max_body_size 100m;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
  server { listen %[2]s; %[3]s }
  server { listen %[4]s; %[5]s }
  server { listen %[6]s http2; %[7]s }
  server { listen %[8]s ssl http2; ssl_certificate %[9]s; ssl_certificate_key %[10]s; ssl_client_certificate %[11]s; ssl_verify_client on; %[12]s }
  server { listen %[13]s ssl; ssl_certificate %[14]s; ssl_certificate_key %[1]s/own.key; %[15]s }
}
`, dir, n.plain, answer("plain"), n.other, answer("other"), n.h2c, answer("h2c"),
		n.mutual, pki.ServerCert, pki.ServerKey, pki.CA, answer("mutual"), n.own, n.ownCert, answer("own"))
	for name, data := range map[string][]byte{"file": n.file, "nginx.conf": []byte(conf)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n.process = start(t, installed(t, "nginx"), "-p", dir, "-c", filepath.Join(dir, "nginx.conf"))
	n.line(func(line string) bool { return strings.Contains(line, "nginx/1.") }) // it listens
	return n
}

// freeAddress is one that nobody listens on: nginx cannot choose its own.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// startRouting runs tlsproxy in front of nginx, with a host for each way.
func startRouting(t *testing.T, n *nginx) *endpoint {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tlsproxy.yaml")
	conf := fmt.Sprintf(`listen: "127.0.0.1:0"
certificates: [{cert: %q, key: %q}]
backends:
  urls: "http://%s"
  health: {check: http, interval: 100ms}
pools:
  other: {urls: "http://%s"}
  h2c: {urls: "http://%s", protocol: h2c}
  mutual: {urls: "https://%s", protocol: h2, ca: %q, tls: {cert: %q, key: %q, server_name: localhost}}
  bytes: {urls: "tcp://%s"}
  own: {urls: "tcp://%s"}
hosts:
  - {names: [www.example, "*.www.example"], pool: default, routes: [{path: /other/, pool: other}, {path: /h2c/, pool: h2c}, {path: /mutual/, pool: mutual}]}
  - {names: bytes.example, mode: tcp, pool: bytes}
  - {names: raw.example, mode: passthrough, pool: own}
unknown_host: refuse
limits: {connections: 1000, handshakes: 1000, requests: 1000}
log: {format: json}
`, pki.ServerCert, pki.ServerKey, n.plain, n.other, n.h2c, n.mutual, pki.CA, pki.ClientCert, pki.ClientKey, n.plain, n.own)
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	return startProxyOn(t, file)
}

// curlTo asks for a URL whose host is at the endpoint's address.
func curlTo(t *testing.T, e *endpoint, host, path string, args ...string) result {
	t.Helper()
	_, port, _ := net.SplitHostPort(e.address)
	args = append([]string{"--silent", "--show-error", "--noproxy", "*", "--resolve", host + ":" + port + ":127.0.0.1", "--max-time", "60"}, args...)
	return run(t, "", installed(t, "curl"), append(args, "https://"+host+":"+port+path)...)
}

// TestNginx sends requests of curl's through the proxy to nginx, by host and
// path, in every protocol that either has.
func TestNginx(t *testing.T) {
	n := startNginx(t)
	e := startRouting(t, n)
	for _, version := range []string{"--http1.1", "--http2"} {
		for _, test := range []struct{ host, path, want string }{
			{"www.example", "/a?b=c", "plain HTTP/1.1 /a?b=c for=127.0.0.1 host=www.example client="},
			{"a.www.example", "/other/a", "other HTTP/1.1 /other/a for=127.0.0.1 host=a.www.example client="},
			{"www.example", "/h2c/%41", "h2c HTTP/2.0 /h2c/%41 for=127.0.0.1 host=www.example client="},
			{"www.example", "/mutual/", "mutual HTTP/2.0 /mutual/ for=127.0.0.1 host=www.example client=CN=interop client"},
		} {
			r := curlTo(t, e, test.host, test.path, version, "--insecure", "--path-as-is")
			if r.status != 0 || strings.TrimSpace(r.stdout) != test.want {
				t.Errorf("%s %s%s: exit %d, %q %s", version, test.host, test.path, r.status, r.stdout, r.stderr)
			}
		}
		for _, path := range []string{"/file", "/other/../file"} {
			r := curlTo(t, e, "www.example", path, version, "--insecure", "--path-as-is")
			if r.status != 0 || !bytes.Equal([]byte(r.stdout), n.file) {
				t.Errorf("%s %s: exit %d, %d bytes %s", version, path, r.status, len(r.stdout), r.stderr)
			}
		}
		upload := filepath.Join(t.TempDir(), "upload")
		if err := os.WriteFile(upload, n.file, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/upload", "/other/upload", "/h2c/upload", "/mutual/upload"} {
			stored := filepath.Join(n.dir, filepath.FromSlash(path))
			os.Remove(stored)
			r := curlTo(t, e, "www.example", path, version, "--insecure", "--upload-file", upload, "--write-out", "%{http_code}")
			got, err := os.ReadFile(stored)
			if r.status != 0 || r.stdout != "201" || err != nil || !bytes.Equal(got, n.file) {
				t.Errorf("%s upload to %s: exit %d, %q %s; %d bytes stored, %v", version, path, r.status, r.stdout, r.stderr, len(got), err)
			}
		}
		r := curlTo(t, e, "www.example", "/", version, "--insecure", "--header", "Host: raw.example", "--write-out", "%{http_code}")
		if r.status != 0 || !strings.HasSuffix(r.stdout, "421") {
			t.Errorf("%s, a Host of another entry: exit %d, %q", version, r.status, r.stdout)
		}
	}
}

// TestNginxBehindBytes: in mode tcp nginx speaks HTTP with the client itself,
// and in mode passthrough TLS too, with its own certificate.
func TestNginxBehindBytes(t *testing.T) {
	n := startNginx(t)
	e := startRouting(t, n)
	r := curlTo(t, e, "bytes.example", "/x", "--insecure")
	if want := "plain HTTP/1.1 /x for= host=bytes.example client=\n"; r.status != 0 || r.stdout != want {
		t.Errorf("tcp: exit %d, %q %s", r.status, r.stdout, r.stderr)
	}
	r = curlTo(t, e, "raw.example", "/x", "--cacert", n.ownCert)
	if want := "own HTTP/1.1 /x for= host=raw.example client=\n"; r.status != 0 || r.stdout != want {
		t.Errorf("passthrough: exit %d, %q %s", r.status, r.stdout, r.stderr)
	}
	r = curlTo(t, e, "raw.example", "/file", "--cacert", n.ownCert)
	if r.status != 0 || !bytes.Equal([]byte(r.stdout), n.file) {
		t.Errorf("passthrough: exit %d, %d bytes %s", r.status, len(r.stdout), r.stderr)
	}
	v := opensslVisit(t, "GET /resumed HTTP/1.1\r\nHost: raw.example\r\nConnection: close\r\n\r\n", "s_client", "-connect", e.address, "-servername", "raw.example",
		"-CAfile", n.ownCert, "-verify_return_error", "-verify_hostname", "raw.example", "-msg", "-ign_eof")
	if v.status != 0 || !strings.Contains(v.body, "/resumed") {
		t.Errorf("openssl, passed through: exit %d, %s", v.status, v.stderr)
	}
	v = opensslVisit(t, "", "s_client", "-connect", e.address, "-servername", "unknown.example")
	if v.status == 0 || !strings.Contains(v.stderr, "unrecognized name") {
		t.Errorf("an unknown host: exit %d, %s", v.status, v.stderr)
	}
}

// TestNginxDies: a health check notices, and clients are told when to come back.
func TestNginxDies(t *testing.T) {
	n := startNginx(t)
	e := startRouting(t, n)
	if r := curlTo(t, e, "www.example", "/", "--insecure"); r.status != 0 {
		t.Fatal(r.stderr)
	}
	n.stop()
	e.line(func(line string) bool { return strings.Contains(line, `"msg":"backend is unhealthy"`) })
	r := curlTo(t, e, "www.example", "/", "--insecure", "--include", "--http1.1")
	if r.status != 0 || !strings.HasPrefix(r.stdout, "HTTP/1.1 503 ") || !strings.Contains(r.stdout, "\r\nRetry-After: 1\r\n") {
		t.Errorf("exit %d, %q %s", r.status, r.stdout, r.stderr)
	}
	e.alive()
}
