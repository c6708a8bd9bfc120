//go:build programs

package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logtest"
)

// migration is a section of docs/migrating.md: the same in another program's language and
// in ours, with ports of this machine and files of a folder.
type migration struct {
	dir          string
	theirs, ours string
	cert         *tls.Certificate // of the server, of clients, and its own authority
	ports        map[string]string
}

// migrating takes the examples out of the text and makes what they name: certificates, each
// file a chain with its key, and backends that tell what reaches them.
func migrating(t *testing.T, language string) *migration {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "docs", "migrating.md"))
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```" + language + "\n(.*?)```\n\n```yaml\n(.*?)```").FindSubmatch(text)
	if example == nil {
		t.Fatalf("no examples for %s", language)
	}
	m := &migration{cert: forServersAndClients(t), ports: map[string]string{}}
	m.dir = filepath.Dir(files(t, m.cert, ""))
	m.theirs, m.ours = replaceFolders(string(example[1]), m.dir), replaceFolders(string(example[2]), m.dir)
	for _, name := range regexp.MustCompile(regexp.QuoteMeta(m.dir)+`/\S+?(/|\.pem|\.key)?([\s;])`).FindAllStringSubmatch(m.theirs, -1) {
		path := name[0][:len(name[0])-len(name[2])]
		if name[1] == "/" {
			path += "chain.pem"
		}
		m.writeChain(t, path)
	}
	for _, address := range regexp.MustCompile(`10\.0\.\d\.\d:\d+`).FindAllString(m.ours, -1) {
		here := echo(t, address)
		m.theirs, m.ours = strings.ReplaceAll(m.theirs, address, here), strings.ReplaceAll(m.ours, address, here)
	}
	return m
}

func (m *migration) writeChain(t *testing.T, file string) {
	t.Helper()
	var both []byte
	for _, name := range []string{"cert.pem", "key.pem"} {
		part, err := os.ReadFile(filepath.Join(m.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, part...)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, both, 0o600); err != nil {
		t.Fatal(err)
	}
}

// forServersAndClients is a certificate that vouches for itself.
func forServersAndClients(t *testing.T) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames:    []string{"www.example.org", "*.example.org"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// echo is a backend in place of one at an address: over HTTP it says which pool it is in,
// by the network of that address, and what of the request reached it; at MQTT's port it
// greets.
func echo(t *testing.T, address string) (here string) {
	t.Helper()
	pool := address[:strings.LastIndexByte(address, '.')]
	if !strings.HasSuffix(address, ":1883") {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s %s for %v by %v", pool, r.Host, r.RequestURI, r.Header["X-Forwarded-For"], r.Header["X-Forwarded-Proto"])
		}))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	ln := listenOn(t, "tcp", "127.0.0.1:0")
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(c, pool)
			c.Close()
		}
	}()
	return ln.Addr().String()
}

// run starts the other program and tlsproxy. Each port that the example listens on, in the
// form that before and after stand around, becomes a free one.
func (m *migration) run(t *testing.T, before, after string, command func(file string) *exec.Cmd) {
	t.Helper()
	m.theirs = regexp.MustCompile(before+`(\d+)`+after).ReplaceAllStringFunc(m.theirs, func(place string) string {
		port := regexp.MustCompile(`\d+`).FindString(place)
		if m.ports[port] == "" {
			ln := listenOn(t, "tcp", "127.0.0.1:0")
			m.ports[port] = ln.Addr().String()
			ln.Close()
		}
		return strings.Replace(strings.Replace(place, ":"+port, port, 1), port, m.ports[port], 1)
	})
	log := m.start(t, "theirs.conf", m.theirs, command)
	for _, address := range m.ports {
		untilItListens(t, address, log)
	}
	ours := regexp.MustCompile(`(?m)^listen: .*$`).ReplaceAllString(m.ours, "listen: ['127.0.0.1:0']")
	log = m.start(t, "ours.yaml", ours, func(file string) *exec.Cmd { return exec.Command(os.Args[0], "run", "-c", file) })
	m.ports["ours"] = log.Find(`msg=listening address=(\S+)`)
}

// untilItListens waits for a program that cannot say when it does.
func untilItListens(t *testing.T, address string, log *logtest.Buffer) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v\n%s", err, log)
		}
	}
}

// start runs a program on a file until the test is over.
func (m *migration) start(t *testing.T, name, text string, command func(file string) *exec.Cmd) *logtest.Buffer {
	t.Helper()
	file := filepath.Join(m.dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	process, log := command(file), new(logtest.Buffer)
	process.Stderr = log
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		process.Process.Signal(syscall.SIGTERM)
		var ended *exec.ExitError
		if err := process.Wait(); err != nil && !errors.As(err, &ended) || t.Failed() {
			t.Logf("%s: %v\n%s", name, err, log)
		}
	})
	return log
}

// get asks for https://HOST/PATH at an address, and tells what came back.
func (m *migration) get(address, host, path string) string {
	roots := x509.NewCertPool()
	roots.AddCert(m.cert.Leaf)
	c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, ServerName: host})
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nX-Forwarded-For: 192.0.2.1\r\nConnection: close\r\n\r\n", path, host)
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err.Error()
	}
	body, err := io.ReadAll(response.Body)
	return fmt.Sprint(response.StatusCode, " ", string(body), err)
}

// compare asks both for the same, host and path, and expects what the pool with a network
// answers.
func (m *migration) compare(t *testing.T, theirs string, asked [][3]string) {
	t.Helper()
	for _, a := range asked {
		their, our := m.get(theirs, a[0], a[1]), m.get(m.ports["ours"], a[0], a[1])
		if their != our || !strings.Contains(our, a[2]) {
			t.Errorf("%s%s: theirs %q, ours %q, want %q", a[0], a[1], their, our, a[2])
		}
	}
}

// TestExampleInNginx has nginx serve what the text says in its language, and compares.
func TestExampleInNginx(t *testing.T) {
	m := migrating(t, "nginx")
	m.theirs = "daemon off; master_process off; error_log stderr; pid " + m.dir + "/pid;\n" + strings.Replace(m.theirs, "http {", "http { access_log off;", 1)
	m.run(t, "listen ", " ", func(file string) *exec.Cmd { return exec.Command("nginx", "-e", "stderr", "-p", m.dir, "-c", file) })
	m.compare(t, m.ports["443"], [][3]string{
		{"www.example.org", "/", "200 10.0.0 www.example.org / for [127.0.0.1] by [https]"},
		{"www.example.org", "/x?y=z", "200 10.0.0 www.example.org /x?y=z "},
		{"www.example.org", "/api/x", "200 10.0.1 www.example.org /api/x "},
		{"www.example.org", "/api/../x", "200 10.0.0 www.example.org /api/../x "},
		{"www.example.org", "/%61pi/x", "200 10.0.1 www.example.org /%61pi/x "},
		{"shop.example.org", "/api/", "200 10.0.1 shop.example.org /api/ "},
		{"example.net", "/", "tls: unrecognized name"},
	})
}

// TestExampleInHAProxy is the same with HAProxy, and compares MQTT too.
func TestExampleInHAProxy(t *testing.T) {
	m := migrating(t, "haproxy")
	m.theirs = strings.Replace(m.theirs, "maxconn 16384", "maxconn 100", 1) // it takes the descriptors for them at once
	m.run(t, "bind :", " ", func(file string) *exec.Cmd { return exec.Command("haproxy", "-db", "-f", file) })
	m.compare(t, m.ports["443"], [][3]string{
		{"www.example.org", "/", "200 10.0.0 www.example.org / for ["},
		{"www.example.org", "/api/x?y=z", "200 10.0.1 www.example.org /api/x?y=z "},
	})
	for _, shown := range [][]tls.Certificate{nil, {*m.cert}} {
		var got []string
		for _, address := range []string{m.ports["8883"], m.ports["ours"]} {
			c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, ServerName: "mqtt.example.org", Certificates: shown})
			if err != nil {
				got = append(got, err.Error())
				continue
			}
			greeting, err := io.ReadAll(c)
			c.Close()
			got = append(got, fmt.Sprint(string(greeting), err))
		}
		want := "10.0.2\n<nil>"
		if shown == nil {
			want = "remote error: tls: certificate required"
		}
		if !slices.Equal(got, []string{want, want}) {
			t.Errorf("with %d certificates: %q, want %q", len(shown), got, want)
		}
	}
}
