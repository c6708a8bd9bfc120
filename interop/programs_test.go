//go:build programs

package interop

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Clients that are installed programs, as Debian has them. They know nothing of
// our groups: they meet the servers on the classical ones that they share.
var (
	installedClients = []string{"curl", "openssl"}
	installedGroups  = []string{x25519, p256}
)

// opensslNames are the groups' names on the command lines of both.
var opensslNames = map[string]string{x25519: "X25519", p256: "P-256"}

// visit is what an installed program saw of a connection, or of two for resume.
type visit struct {
	result
	hellos       int    // ClientHellos that it sent: one more for each retry
	certificates int    // certificate messages of the server: none on resumption
	body         string // of the HTTP answer
	alpn         string // on the last of the connections
}

func TestInstalledVersions(t *testing.T) {
	t.Log(firstLine(run(t, "", installed(t, "curl"), "--version").stdout))
	t.Log(firstLine(run(t, "", installed(t, "openssl"), "version").stdout))
}

func firstLine(s string) string { line, _, _ := strings.Cut(s, "\n"); return line }

func installed(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v; scripts/need.sh %s=%s installs it", err, name, name)
	}
	return path
}

// TestInstalledPrograms is the matrix's rows for them. Where the server insists
// on a group of ours they receive handshake_failure.
func TestInstalledPrograms(t *testing.T) {
	for _, server := range matrixServers {
		for _, group := range installedGroups {
			t.Run(server+"/"+group, func(t *testing.T) {
				plain := matrixServer(t, server, group, false)
				asking := matrixServer(t, server, group, true)
				for _, client := range installedClients {
					for _, mode := range matrixModes {
						c := cell{client, server, group, mode}
						e := plain
						if mode == "mtls" {
							e = asking
						}
						if fault := c.checkVisit(t, e, c.visit(t, e)); fault != "" {
							t.Errorf("%+v: %s", c, fault)
						}
					}
				}
			})
		}
	}
	for _, server := range []string{"ctrutls", "tlsproxy"} {
		for _, group := range []string{prime653, prime761, prime1277} {
			e := matrixServer(t, server, group, false)
			for _, client := range installedClients {
				c := cell{client, server, x25519, "full"}
				v := c.visit(t, e)
				if v.status == 0 || !strings.Contains(strings.ToLower(v.stderr), "handshake failure") {
					t.Errorf("%s, %s requires %s: exit %d, %s", client, server, group, v.status, v.stderr)
				}
			}
			e.lives(group)
		}
	}
}

func (c cell) visit(t *testing.T, e *endpoint) visit {
	t.Helper()
	if c.client == "curl" {
		return c.curl(t, e)
	}
	return c.openssl(t, e)
}

// offered is the program's list of groups. It sends a share for the first only.
func (c cell) offered() string {
	if c.mode != "retry" {
		return opensslNames[c.group]
	}
	other := map[string]string{x25519: "P-256", p256: "X25519"}[c.group]
	return other + ":" + opensslNames[c.group]
}

func (c cell) curl(t *testing.T, e *endpoint) visit {
	t.Helper()
	_, port, _ := net.SplitHostPort(e.address)
	url := "https://localhost:" + port + "/cell"
	args := []string{"--silent", "--show-error", "--verbose", "--noproxy", "*", "--resolve", "localhost:" + port + ":127.0.0.1",
		"--cacert", pki.CA, "--tlsv1.3", "--curves", c.offered(), "--max-time", "60"}
	switch c.mode {
	case "h2":
		args = append(args, "--http2", url)
	case "mtls":
		args = append(args, "--http1.1", "--cert", pki.ClientCert, "--key", pki.ClientKey, url)
	case "resume":
		args = append(args, "--http1.1", "--header", "Connection: close", url, url)
	default:
		args = append(args, "--http1.1", url)
	}
	v := visit{result: run(t, "", installed(t, "curl"), args...)}
	v.body = v.stdout
	v.hellos = strings.Count(v.stderr, "TLS handshake, Client hello (1)")
	v.certificates = strings.Count(v.stderr, "(IN), TLS handshake, Certificate (11)")
	v.alpn = lastMatch(`ALPN: server accepted (?:to use )?(\S+)`, v.stderr)
	return v
}

func (c cell) openssl(t *testing.T, e *endpoint) visit {
	t.Helper()
	args := []string{"s_client", "-connect", e.address, "-servername", "localhost", "-CAfile", pki.CA, "-verify_return_error",
		"-verify_hostname", "localhost", "-tls1_3", "-groups", c.offered(), "-msg"}
	request := "GET /cell HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	session := filepath.Join(t.TempDir(), "session.pem")
	switch c.mode {
	case "h2": // nothing to say in HTTP/2: it ends with its standard input
		return opensslVisit(t, "", append(args, "-alpn", "h2")...)
	case "mtls":
		args = append(args, "-cert", pki.ClientCert, "-key", pki.ClientKey)
	case "resume":
		if first := opensslVisit(t, request, append(args, "-ign_eof", "-sess_out", session)...); first.status != 0 || first.certificates != 1 {
			return first
		}
		args = append(args, "-sess_in", session)
	}
	return opensslVisit(t, request, append(args, "-ign_eof")...)
}

func opensslVisit(t *testing.T, stdin string, args ...string) visit {
	t.Helper()
	v := visit{result: run(t, stdin, "openssl", args...)}
	v.body = v.stdout
	v.hellos = len(regexp.MustCompile(`(?m)^>>> .*ClientHello`).FindAllString(v.stdout, -1))
	v.certificates = len(regexp.MustCompile(`(?m)^<<< .*Certificate$`).FindAllString(v.stdout, -1))
	v.alpn = lastMatch(`ALPN protocol: (\S+)`, v.stdout)
	return v
}

// lastMatch is what the group of a pattern matches last.
func lastMatch(pattern, text string) string {
	all := regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1][1]
}

// checkVisit says what is wrong with a visit; the empty string if it is what
// the mode is about. A server of the tests has to have seen the same.
func (c cell) checkVisit(t *testing.T, e *endpoint, v visit) string {
	t.Helper()
	hellos, certificates, connections := 1, 1, 1
	switch {
	case c.mode == "retry":
		hellos = 2
	case c.mode == "resume" && c.client == "curl": // both connections in one log
		hellos, connections = 2, 2
	case c.mode == "resume":
		certificates, connections = 0, 2
	}
	switch {
	case v.status != 0:
		return fmt.Sprintf("exit %d: %s", v.status, v.stderr)
	case v.hellos != hellos || v.certificates != certificates:
		return fmt.Sprintf("%d ClientHellos and %d certificates, want %d and %d", v.hellos, v.certificates, hellos, certificates)
	case v.alpn != c.alpn():
		return fmt.Sprintf("ALPN %q, want %q", v.alpn, c.alpn())
	case !(c.mode == "h2" && c.client == "openssl") && !strings.Contains(v.body, "/cell"):
		return fmt.Sprintf("the answer is %q", v.body)
	case c.client == "openssl" && !regexp.MustCompile(`Temp Key: .*(X25519|P-256|prime256v1)`).MatchString(v.stdout) && c.mode != "resume":
		return "openssl names no key exchange"
	}
	if c.server == "tlsproxy" {
		return ""
	}
	for i := range connections {
		seen := e.handshake()
		if fault := c.checkEnd(&seen.Handshake, c.mode == "resume" && i == 1); fault != "" {
			return "server: " + fault
		}
		if c.mode == "mtls" && seen.Peer != "interop client" {
			return fmt.Sprintf("the server saw the certificate of %q", seen.Peer)
		}
	}
	return ""
}

// A list of groups that the proxy does not know, finite fields among them, ends
// in a retry with the one that it does.
func TestUnknownGroups(t *testing.T) {
	e := startProxy(t, proxyOptions{})
	v := opensslVisit(t, "GET /unknown HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		"s_client", "-connect", e.address, "-servername", "localhost", "-CAfile", pki.CA, "-verify_return_error",
		"-tls1_3", "-groups", "ffdhe2048:X448:X25519", "-msg", "-ign_eof")
	if v.status != 0 || v.hellos != 2 || !strings.Contains(v.body, "/unknown") || !strings.Contains(v.stdout, "Temp Key: X25519") {
		t.Errorf("exit %d, %d ClientHellos: %s%s", v.status, v.hellos, v.stdout, v.stderr)
	}
	v = opensslVisit(t, "", "s_client", "-connect", e.address, "-servername", "localhost", "-tls1_3", "-groups", "X448:ffdhe2048")
	if v.status == 0 || !strings.Contains(v.stderr, "handshake failure") {
		t.Errorf("no group in common: exit %d, %s", v.status, v.stderr)
	}
	e.lives(prime761)
}

// TLS 1.2 by installed programs, for those who still have to allow it.
func TestInstalledTLS12(t *testing.T) {
	e := startProxy(t, proxyOptions{})
	_, port, _ := net.SplitHostPort(e.address)
	r := run(t, "", installed(t, "curl"), "--silent", "--show-error", "--noproxy", "*", "--resolve", "localhost:"+port+":127.0.0.1",
		"--cacert", pki.CA, "--tls-max", "1.2", "https://localhost:"+port+"/old")
	if r.status != 0 || !strings.Contains(r.stdout, "/old") {
		t.Errorf("exit %d: %s%s", r.status, r.stdout, r.stderr)
	}
}

// Plain HTTP to the TLS port is told what is wrong, in HTTP.
func TestPlainHTTP(t *testing.T) {
	e := startProxy(t, proxyOptions{})
	r := run(t, "", installed(t, "curl"), "--silent", "--show-error", "--noproxy", "*", "--http0.9", "--write-out", "%{http_code}", "http://"+e.address+"/")
	if r.status != 0 || !strings.HasSuffix(r.stdout, "400") || !strings.Contains(r.stdout, "HTTPS") {
		t.Errorf("exit %d: %q %s", r.status, r.stdout, r.stderr)
	}
	e.lives(prime761)
}
