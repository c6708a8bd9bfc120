package acme

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds each test; none comes near it unless it hangs.
const patience = 2 * time.Minute

// process is a program that runs, and what it printed.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	mu   sync.Mutex
	more *sync.Cond
	text bytes.Buffer
	over bool          // the time is, or the program
	done chan struct{} // closed when the program has ended
}

// start runs a program until the end of the test.
func start(ctx context.Context, t *testing.T, environment []string, program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.more = sync.NewCond(&p.mu)
	p.cmd.Env = append(os.Environ(), environment...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		p.end()
		close(p.done)
	}()
	stop := context.AfterFunc(ctx, p.end)
	t.Cleanup(func() {
		stop()
		p.stop()
	})
	return p
}

// end has nobody wait any longer.
func (p *process) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.more.Broadcast()
}

// stop ends the program.
func (p *process) stop() {
	p.cmd.Process.Kill()
	<-p.done
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.more.Broadcast()
	return p.text.Write(b)
}

// wait returns once the program has printed text so many times.
func (p *process) wait(text string, times int) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for strings.Count(p.text.String(), text) < times {
		if p.over {
			p.t.Fatalf("%s did not print %q %d times:\n%s", p.cmd.Path, text, times, &p.text)
		}
		p.more.Wait()
	}
}

// build builds a program from a folder.
func build(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", append(args, "-o", program)...)
	if i := len(args) - 1; args[i] != "build" { // the package comes last
		cmd = exec.Command("go", append(append(args[:i:i], "-o", program), args[i])...)
	}
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return program
}

type programs struct{ challtestsrv, pebble, tlsproxy string }

// buildPrograms takes as long as it takes: that depends on the go command's cache.
func buildPrograms(t *testing.T) programs {
	return programs{
		challtestsrv: build(t, ".", "challtestsrv", "build", "github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv"),
		pebble:       build(t, ".", "pebble", "build", "github.com/letsencrypt/pebble/v2/cmd/pebble"),
		tlsproxy:     build(t, "../..", "tlsproxy", "tool", "gotls", "build", "./cmd/tlsproxy"),
	}
}

// freeAddress is one that nobody listened on just now.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// certify writes a certificate that vouches for itself, and its key.
func certify(t *testing.T, dir, name string, hosts ...string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: hosts, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// authority is a Pebble, and names that lead to this machine.
type authority struct {
	pebble    *process
	directory string
	ca        string         // the file that vouches for the directory
	roots     *x509.CertPool // that vouch for what it issues
}

// startAuthority starts one that validates names by connections to a port.
func startAuthority(ctx context.Context, t *testing.T, built programs, dir, port string) *authority {
	t.Helper()
	dns, dnsManagement, directory, management := freeAddress(t), freeAddress(t), freeAddress(t), freeAddress(t)
	cert, key := certify(t, dir, "pebble")
	configuration, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": directory, "managementListenAddress": management, "certificate": cert, "privateKey": key,
		"httpPort": 1, "tlsPort": json.Number(port),
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "pebble.json")
	if err := os.WriteFile(file, configuration, 0o600); err != nil {
		t.Fatal(err)
	}
	start(ctx, t, nil, built.challtestsrv,
		"-dnsserver", dns, "-management", dnsManagement, "-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-defaultIPv4", "127.0.0.1", "-defaultIPv6", "").
		wait("Starting management server", 1)
	a := &authority{directory: "https://" + directory + "/dir", ca: cert}
	a.pebble = start(ctx, t, []string{"PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0"}, built.pebble, "-config", file, "-dnsserver", dns)
	root := fetch(ctx, t, "https://"+management+"/roots/0")
	a.roots = x509.NewCertPool()
	if !a.roots.AppendCertsFromPEM(root) {
		t.Fatalf("not a certificate: %s", root)
	}
	fetch(ctx, t, a.directory)
	return a
}

// fetch gets what a server of Pebble answers, once it listens.
func fetch(ctx context.Context, t *testing.T, url string) []byte {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	for {
		response, err := client.Get(url)
		if err == nil {
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			return body
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// connect connects for a name and wants a certificate that roots vouch for.
func connect(address, name string, roots *x509.CertPool) (*x509.Certificate, error) {
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", address, &tls.Config{ServerName: name, RootCAs: roots})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0], nil
}

// issuedTo is the certificate for a name once it comes from the authority: it is in
// use a moment after it was obtained.
func (a *authority) issuedTo(ctx context.Context, t *testing.T, address, name string) *x509.Certificate {
	t.Helper()
	for {
		cert, err := connect(address, name, a.roots)
		if err == nil {
			return cert
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", name, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

const issued = "ACME: certificate obtained successfully"

// TestPebble obtains certificates, for a name that is added by a reload too, and
// serves them after a restart without the authority.
func TestPebble(t *testing.T) {
	built := buildPrograms(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dir, address := t.TempDir(), freeAddress(t)
	a := startAuthority(ctx, t, built, dir, portOf(address))
	own, ownKey := certify(t, dir, "own", "own.example")
	file := filepath.Join(dir, "tlsproxy.yaml")
	configure := func(names string) {
		text := fmt.Sprintf("listen: %q\ncertificates: [{cert: %q, key: %q}]\nbackends: {urls: 'http://127.0.0.1:1'}\n"+
			"acme: {names: [%s], agree_terms: true, email: a@example.org, directory: %q, directory_ca: %q}\n", address, own, ownKey, names, a.directory, a.ca)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure("a.example.org, b.example.org")
	proxy := start(ctx, t, nil, built.tlsproxy, "run", "-c", file)
	proxy.wait(issued, 2)
	for _, name := range []string{"a.example.org", "b.example.org"} {
		if cert := a.issuedTo(ctx, t, address, name); len(cert.DNSNames) != 1 || cert.DNSNames[0] != name {
			t.Errorf("%s: a certificate for %v", name, cert.DNSNames)
		}
	}
	if cert, err := connect(address, "own.example", a.roots); err == nil {
		t.Errorf("the proxy's own certificate comes from an authority: %v", cert.Issuer)
	}

	configure("a.example.org, b.example.org, c.example.org")
	proxy.cmd.Process.Signal(syscall.SIGHUP)
	proxy.wait(issued, 3)
	first := a.issuedTo(ctx, t, address, "c.example.org")

	proxy.stop()
	a.pebble.stop()
	proxy = start(ctx, t, nil, built.tlsproxy, "run", "-c", file)
	proxy.wait("msg=listening", 1)
	if again := a.issuedTo(ctx, t, address, "c.example.org"); !again.Equal(first) {
		t.Error("another certificate after a restart")
	}
}
