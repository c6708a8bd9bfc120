//go:build programs

package interop

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// haproxy runs one with a configuration, and returns once it listens at an address.
func haproxy(t *testing.T, address, conf string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	conf = "global\n  hard-stop-after 10s\n  log stdout format raw local0\ndefaults\n  log global\n  timeout connect 10s\n  timeout client 60s\n  timeout server 60s\n  timeout check 10s\n" + conf
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, installed(t, "haproxy"), "-db", "-f", file)
	p.end = syscall.SIGUSR1 // at SIGTERM it does not drain, and ends by it
	for deadline := time.Now().Add(patience); ; {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			return p
		}
		p.alive()
		if time.Now().After(deadline) {
			t.Fatalf("HAProxy does not listen: %v; it wrote:\n%s", err, p.written())
		}
		time.Sleep(time.Millisecond)
	}
}

// pemOf is a certificate and its key in one file, as HAProxy wants it.
func pemOf(t *testing.T) string {
	t.Helper()
	var all bytes.Buffer
	for _, name := range []string{pki.ServerCert, pki.ServerKey} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	file := filepath.Join(t.TempDir(), "both.pem")
	if err := os.WriteFile(file, all.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// chain is HAProxy in front of tlsproxy, in front of another HAProxy, which says
// what it was told.
type chain struct {
	proxy     *endpoint
	front     map[string]string // addresses, by what is sent
	back      string
	backLines *process
}

// The addresses that curl and the HAProxy in front have as clients: who is who shows.
const (
	clientAddress = "127.0.0.2"
	frontAddress  = "127.0.0.3"
)

func startChain(t *testing.T) *chain {
	t.Helper()
	c := &chain{back: freeAddress(t), front: map[string]string{}}
	c.backLines = haproxy(t, c.back, fmt.Sprintf(`frontend back
  bind %s accept-proxy
  mode http
  http-request return status 200 content-type text/plain lf-string "src=%%[src] dst=%%[dst] authority=%%[fc_pp_authority] id=%%[fc_pp_unique_id] for=%%[req.hdr(x-forwarded-for)]\n"
`, c.back))
	file := filepath.Join(t.TempDir(), "tlsproxy.yaml")
	conf := fmt.Sprintf(`listen: {address: "127.0.0.1:0", proxy_protocol: {from: %[1]s}}
certificates: [{cert: %[2]q, key: %[3]q}]
backends: {urls: "http://%[4]s", proxy_protocol: v2, health: {check: http, interval: 100ms}}
pools:
  v1: {urls: "http://%[4]s", proxy_protocol: v1}
  bytes: {urls: "tcp://%[4]s", proxy_protocol: v2}
hosts:
  - {names: v1.example, pool: v1}
  - {names: bytes.example, mode: tcp, pool: bytes}
log: {format: json, requests: true, level: debug}
`, frontAddress, pki.ServerCert, pki.ServerKey, c.back)
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	c.proxy = startProxyOn(t, file)
	var front strings.Builder
	for _, how := range []struct{ name, bind, server string }{
		{"v1", "", "send-proxy check inter 100ms"},
		{"v2", "", "send-proxy-v2 proxy-v2-options unique-id,crc32c check inter 100ms"},
		{"tls", "ssl crt " + pemOf(t) + " verify none", "send-proxy-v2-ssl-cn proxy-v2-options authority,unique-id ssl verify none sni ssl_fc_sni"},
	} {
		c.front[how.name] = freeAddress(t)
		fmt.Fprintf(&front, "listen %s\n  mode tcp\n  bind %s %s\n  unique-id-format of-%s\n  source %s\n  server proxy %s %s\n",
			how.name, c.front[how.name], how.bind, how.name, frontAddress, c.proxy.address, how.server)
	}
	haproxy(t, c.front["v1"], front.String())
	return c
}

// ask has curl ask at one of HAProxy's addresses, from an address of its own.
func (c *chain) ask(t *testing.T, how, host string, args ...string) result {
	t.Helper()
	_, port, _ := net.SplitHostPort(c.front[how])
	args = append([]string{"--silent", "--show-error", "--noproxy", "*", "--insecure", "--interface", clientAddress, "--resolve", host + ":" + port + ":127.0.0.1", "--max-time", "60"}, args...)
	return run(t, "", installed(t, "curl"), append(args, "https://"+host+":"+port+"/")...)
}

// TestHAProxy: what HAProxy tells of curl by either version of the PROXY protocol is
// what tlsproxy logs and tells to the HAProxy behind it, over HTTP and as bytes.
func TestHAProxy(t *testing.T) {
	c := startChain(t)
	for _, test := range []struct{ how, host, want string }{
		{"v1", "localhost", `src=127.0.0.2 dst=127.0.0.1 authority=localhost id= for=127.0.0.2`},
		{"v2", "localhost", `src=127.0.0.2 dst=127.0.0.1 authority=localhost id=of-v2 for=127.0.0.2`},
		{"tls", "localhost", `src=127.0.0.2 dst=127.0.0.1 authority=localhost id=of-tls for=127.0.0.2`},
		{"v2", "v1.example", `src=127.0.0.2 dst=127.0.0.1 authority= id= for=127.0.0.2`},
		{"v2", "bytes.example", `src=127.0.0.2 dst=127.0.0.1 authority=bytes.example id=of-v2 for=`},
	} {
		for _, version := range []string{"--http1.1", "--http2"} {
			r := c.ask(t, test.how, test.host, version)
			if r.status != 0 || strings.TrimSpace(r.stdout) != test.want {
				t.Errorf("%s %s by %s: exit %d, %q %s; want %q", version, test.host, test.how, r.status, r.stdout, r.stderr, test.want)
			}
		}
	}
	line := c.proxy.line(func(line string) bool { return strings.Contains(line, `"unique_id":"of-v2"`) })
	if !regexp.MustCompile(`"remote":"127\.0\.0\.2:\d+"`).MatchString(line) || !regexp.MustCompile(`"via":"127\.0\.0\.3:\d+"`).MatchString(line) {
		t.Error(line)
	}
	if strings.Contains(c.proxy.written(), "connection refused") {
		t.Error("checks of HAProxy's were refused")
	}

	// Nobody but that HAProxy is believed, or heard.
	_, port, _ := net.SplitHostPort(c.proxy.address)
	r := run(t, "", installed(t, "curl"), "--silent", "--show-error", "--noproxy", "*", "--insecure", "--haproxy-protocol", "https://127.0.0.1:"+port+"/")
	if r.status == 0 {
		t.Errorf("curl itself got an answer: %s", r.stdout)
	}
	c.proxy.line(func(line string) bool {
		return strings.Contains(line, `"msg":"connection refused"`) && strings.Contains(line, "not from one of listen.proxy_protocol.from")
	})
	c.proxy.alive()
}
