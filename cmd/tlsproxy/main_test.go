package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logtest"
)

// TestMain lets the test binary be the program: as the demonstration's client,
// and where signals or another mode of the process are tested.
func TestMain(m *testing.M) {
	if os.Getenv(brokenClient) != "" && len(os.Args) > 1 && os.Args[1] == "loadgen" {
		os.Exit(1)
	}
	if len(os.Args) > 1 && slices.Contains([]string{"loadgen", "run", "check", "complete", "completion", "man"}, os.Args[1]) {
		main()
	}
	if !groups.HookPresent() {
		log.Fatal("tlsproxy's tests need the hook in crypto/tls; run them with go run ./tlsext/gotls test ./cmd/tlsproxy/...")
	}
	goleak.VerifyTestMain(m)
}

// brokenClient in the environment has the demonstration's client end at once.
const brokenClient = "TLSPROXY_TEST_BROKEN_CLIENT"

// tlsproxy runs a command line and returns the status and what it printed.
func tlsproxy(args ...string) (status int, out, errOut string) {
	var o, e bytes.Buffer
	status = execute(context.Background(), args, strings.NewReader(""), &o, &e)
	return status, o.String(), e.String()
}

// files writes a certificate and a configuration that names it.
func files(t *testing.T, cert *tls.Certificate, rest string) (configuration string) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	configuration = filepath.Join(dir, "conf.yaml")
	for name, data := range map[string][]byte{
		"cert.pem":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}),
		"key.pem":   pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"conf.yaml": []byte("certificates: [{cert: cert.pem, key: key.pem}]\n" + rest),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return configuration
}

func selfSigned(t *testing.T) *tls.Certificate {
	t.Helper()
	cert, err := certificates.SelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// TestExampleNamesEveryKey compares the annotated example with the struct.
func TestExampleNamesEveryKey(t *testing.T) {
	data, err := os.ReadFile("tlsproxy.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		t.Fatal(err)
	}
	got, want := withoutRepeats(keysIn("", tree.Docs[0].Body)), withoutRepeats(config.Keys())
	if !slices.Equal(got, want) {
		t.Errorf("the example names\n%v\nthe configuration has\n%v", got, want)
	}
}

// withoutRepeats sorts and leaves out the keys of entries of pools and of hosts'
// certificates, which are those of backends and certificates, and what a list of
// several entries repeats.
func withoutRepeats(keys []string) []string {
	keys = slices.DeleteFunc(keys, func(key string) bool {
		return strings.HasPrefix(key, "pools.") || strings.HasPrefix(key, "hosts.certificates.")
	})
	slices.Sort(keys)
	return slices.Compact(keys)
}

// keysIn lists the paths of all keys in a file.
func keysIn(path string, n ast.Node) []string {
	var keys []string
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, entry := range n.Values {
			inner := strings.TrimPrefix(path+"."+entry.Key.GetToken().Value, ".")
			keys = append(append(keys, inner), keysIn(inner, entry.Value)...)
		}
	case *ast.SequenceNode:
		for _, item := range n.Values {
			keys = append(keys, keysIn(path, item)...)
		}
	}
	return keys
}

// TestExampleShowsTheDefaults: what it says of a key that is not required is
// what happens without it.
func TestExampleShowsTheDefaults(t *testing.T) {
	example, err := config.Load("tlsproxy.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Certificates, want.Backends.URLs = example.Certificates, example.Backends.URLs
	want.Pools, want.Hosts = example.Pools, example.Hosts
	if got, want := string(example.YAML()), string(want.YAML()); got != want {
		t.Errorf("the example\n%s\nthe defaults\n%s", got, want)
	}
}

func TestUsage(t *testing.T) {
	for _, test := range []struct {
		args    []string
		status  int
		out     string
		errText string
	}{
		{[]string{"--help"}, 0, "Usage: tlsproxy <command>", ""},
		{[]string{"run", "--help"}, 0, "-c, --config=FILE", ""},
		{[]string{}, exitUsage, "", "tlsproxy: expected one of \"run\", \"check\", \"demo\", \"bench\", \"report\", ...; see tlsproxy --help\n"},
		{[]string{"run"}, exitUsage, "", "tlsproxy: missing flags: --config=FILE; see tlsproxy --help\n"},
		{[]string{"rnu"}, exitUsage, "", "tlsproxy: unexpected argument rnu, did you mean \"run\"?; see tlsproxy --help\n"},
		{[]string{"demo", "--groups", "X25519,X2551"}, exitUsage, "", `tlsproxy: --groups: unknown group "X2551"; did you mean "X25519"?; see tlsproxy --help` + "\n"},
		{[]string{"run", "-c", "absent.yaml"}, exitFailure, "", "tlsproxy: absent.yaml: no such file or directory\n"},
		{[]string{"demo", "--rounds", "0"}, exitFailure, "", "tlsproxy: demo: 0 rounds; possible are 1 to 1000\n"},
	} {
		status, out, errText := tlsproxy(test.args...)
		if status != test.status || !strings.Contains(out, test.out) || errText != test.errText {
			t.Errorf("%v: status %d\n%s\n%s", test.args, status, out, errText)
		}
	}
}

func TestVersion(t *testing.T) {
	status, out, _ := tlsproxy("version")
	want := regexp.MustCompile(`^tlsproxy \S+\ncommit .+\ngo \d\S* ` + runtime.GOOS + "/" + runtime.GOARCH + `\ncrypto/tls hook present\ngroups X25519CTRUPrime653 X25519CTRUPrime761 X25519CTRUPrime1277 X25519MLKEM768 .*X25519 CurveP256.*\n$`)
	if status != 0 || !want.MatchString(out) {
		t.Errorf("status %d: %s", status, out)
	}
}

func TestCheck(t *testing.T) {
	file := files(t, selfSigned(t), "backends: {urls: http://127.0.0.1:1}\ntls: {groups: [X25519]}\n")
	status, out, errText := tlsproxy("check", "-c", file)
	for _, want := range []string{"# " + file + " can be run.", "# certificates[0]: localhost, ECDSA P-256, valid until ", "\nlisten:\n- address: localhost:8443\n", "groups:\n  - X25519\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	for _, want := range []string{"tlsproxy: warning: tls.groups names no post-quantum group", "tlsproxy: warning: certificates[0] (localhost) expires soon"} {
		if !strings.Contains(errText, want) {
			t.Errorf("no %q in %s", want, errText)
		}
	}
	if status != 0 {
		t.Errorf("status %d", status)
	}
	if status, out, quiet := tlsproxy("check", "-q", "-c", file); status != 0 || out != "" || quiet != errText {
		t.Errorf("quiet: status %d %s\n%s", status, out, quiet)
	}
}

// TestCheckSaysWhatWouldRun: listeners, certificates, hosts, groups in order, pools.
func TestCheckSaysWhatWouldRun(t *testing.T) {
	file := files(t, selfSigned(t), `
listen: [':8443', '127.0.0.1:9443']
admin: {listen: ':9000'}
acme: {names: [a.example, b.example], agree_terms: true}
backends: {urls: ['http://127.0.0.1:1', 'http://127.0.0.1:2'], balance: least_connections, health: {check: http}}
tls: {groups: [X25519MLKEM768, X25519], client_auth: {mode: request, ca: cert.pem}}
pools:
  api: {urls: https://127.0.0.1:3, protocol: h2, tls: {groups: [X25519], cert: cert.pem, key: key.pem}}
  db: {urls: 'tcp://127.0.0.1:4'}
hosts:
  - {names: [a.example, '*.a.example'], routes: [{path: /api/, pool: api}]}
  - {names: [b.example], mode: passthrough, pool: db}
`)
	const policy = ", TLS 1.2 or later, groups X25519MLKEM768 X25519, protocols h2 http/1.1, client certificates: request"
	_, want, _ := strings.Cut(`
# listen[0]: :8443
# listen[1]: 127.0.0.1:9443
# admin.listen[0]: localhost:9000
# certificates[0]: localhost, ECDSA P-256, valid until TIME
# acme: a.example, b.example, from https://acme-v02.api.letsencrypt.org/directory
# hosts[0]: a.example, *.a.example: http to pool default, /api/ to pool api`+policy+`
# hosts[1]: b.example: passthrough to pool db
# unknown_host: http to pool default`+policy+`
# backends: http://127.0.0.1:1 http://127.0.0.1:2, least_connections, http1, health check http
# pools.api: https://127.0.0.1:3, round_robin, h2, no health check, groups X25519, a certificate valid until TIME
# pools.db: tcp://127.0.0.1:4, round_robin, no health check
`, "\n")
	status, out, errText := tlsproxy("check", "-c", file)
	_, out, _ = strings.Cut(out, "\n")
	out = regexp.MustCompile(`20\d\d-\S+`).ReplaceAllString(out, "TIME")
	if status != 0 || !strings.HasPrefix(out, want) {
		t.Errorf("status %d: %s\n%s\nwant\n%s", status, errText, out, want)
	}
	for _, want := range []string{"pools.api.tls.groups names no post-quantum group", "pools.api.tls.cert expires soon, at 20"} {
		if !strings.Contains(errText, "tlsproxy: warning: "+want) {
			t.Errorf("no %q in %s", want, errText)
		}
	}
	file = files(t, selfSigned(t), "backends: {urls: http://127.0.0.1:1}\nunknown_host: refuse\nhosts: [{names: [localhost]}]\n")
	if _, out, _ := tlsproxy("check", "-c", file); !strings.Contains(out, "\n# unknown_host: refused\n") {
		t.Error(out)
	}
	file = files(t, selfSigned(t), "backends: {urls: http://127.0.0.1:1}\nhosts: [{names: ['*']}]\n")
	if _, out, _ := tlsproxy("check", "-c", file); strings.Contains(out, "\n# unknown_host: ") {
		t.Error(out)
	}
}

// TestCheckFindsWhatTheFileNames: files that are absent or do not fit are
// blamed on their lines.
func TestCheckFindsWhatTheFileNames(t *testing.T) {
	file := files(t, selfSigned(t), "backends:\n  urls: https://127.0.0.1:1\n  ca: absent.pem\n")
	if err := os.Remove(filepath.Join(filepath.Dir(file), "key.pem")); err != nil {
		t.Fatal(err)
	}
	status, out, errText := tlsproxy("check", "-c", file)
	dir := filepath.Dir(file)
	want := fmt.Sprintf("tlsproxy: %s:1:16: open %s: no such file or directory\ntlsproxy: %s:4:7: open %s: no such file or directory\n",
		file, filepath.Join(dir, "key.pem"), file, filepath.Join(dir, "absent.pem"))
	if status != exitFailure || out != "" || errText != want {
		t.Errorf("status %d %s\n%s\nwant\n%s", status, out, errText, want)
	}
}

// TestFIPSMode: groups that crypto/tls then leaves out are told of, and a list
// of nothing else is refused.
func TestFIPSMode(t *testing.T) {
	check := func(groups string) (string, error) {
		file := files(t, selfSigned(t), "backends: {urls: http://127.0.0.1:1}\ntls: {groups: ["+groups+"]}\n")
		process := exec.Command(os.Args[0], "check", "-c", file)
		process.Env = append(os.Environ(), "GODEBUG=fips140=on")
		var errText bytes.Buffer
		process.Stderr = &errText
		err := process.Run()
		return errText.String(), err
	}
	got, err := check("X25519CTRUPrime761, X25519MLKEM768, X25519, CurveP256")
	if err != nil || !strings.Contains(got, "tlsproxy: warning: tls.groups: X25519CTRUPrime761, X25519: not available in FIPS 140 mode") {
		t.Errorf("%v %s", err, got)
	}
	got, err = check("X25519MLKEM768, CurveP256")
	if err != nil || strings.Contains(got, "FIPS") {
		t.Errorf("%v %s", err, got)
	}
	got, err = check("X25519CTRUPrime761, X25519CTRUPrime653")
	if err == nil || !strings.Contains(got, "conf.yaml:3:15: none of X25519CTRUPrime761, X25519CTRUPrime653 is available in FIPS 140 mode") {
		t.Errorf("%v %s", err, got)
	}
}

// TestDemoErrors name no place in a file: there is none.
func TestDemoErrors(t *testing.T) {
	taken := httptest.NewServer(nil)
	defer taken.Close()
	address := taken.Listener.Addr().String()
	if status, _, errText := tlsproxy("demo", "--listen", address); status != exitFailure || errText != "tlsproxy: listen tcp "+address+": bind: address already in use\n" {
		t.Errorf("status %d: %s", status, errText)
	}
}

// TestRun serves from a file on two addresses until it is told to stop.
func TestRun(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }))
	defer backend.Close()
	cert := selfSigned(t)
	file := files(t, cert, "listen: ['127.0.0.1:0', 'localhost:0']\nbackends: {urls: '"+backend.URL+"'}\nlog: {format: json, requests: true}\n")
	log := new(logtest.Buffer)
	ctx, stop := context.WithCancel(context.Background())
	status := start(ctx, log, "run", "--config", file)

	roots := x509.NewCertPool()
	roots.AddCert(cert.Leaf)
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost",
		CurvePreferences: groups.Default()}}}
	defer client.CloseIdleConnections()
	both := log.Find(`(?s)"address":"([^"]+)".*"address":"([^"]+)"`)
	first := log.Find(`"address":"([^"]+)"`)
	for _, address := range []string{first, both} {
		response, err := client.Get("https://" + address + "/")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if string(body) != "hello" || response.ProtoMajor != 2 || groups.Name(response.TLS.CurveID) != "X25519CTRUPrime761" {
			t.Errorf("%s %s %q", response.Proto, response.TLS.CurveID, body)
		}
	}
	var line map[string]any
	if err := json.Unmarshal([]byte(log.Find(`(?m)^(\{.*"msg":"request".*\})$`)), &line); err != nil || line["group"] != "X25519CTRUPrime761" {
		t.Errorf("%v %v", line, err)
	}
	stop()
	if s := <-status; s != 0 {
		t.Errorf("status %d", s)
	}
	log.Find(`"msg":"drained"()`)

	// A GPU that is asked for and is not there is blamed on its line, and so is an address
	// that is taken.
	file = files(t, cert, "listen: ['127.0.0.1:0']\nbackends: {urls: '"+backend.URL+"'}\nprovider: {engine: gpu, gpu: {library: /no/such/libcuda.so.1}}\n")
	if s, _, errText := tlsproxy("run", "-c", file); s != exitFailure || !strings.Contains(errText, "tlsproxy: "+file+":4:20: provider: ") || !strings.HasSuffix(errText, "write engine: auto\n") {
		t.Errorf("status %d: %s", s, errText)
	}
	taken := backend.Listener.Addr().String()
	file = files(t, cert, "listen: ['127.0.0.1:0', '"+taken+"']\nbackends: {urls: '"+backend.URL+"'}\n")
	if s, _, errText := tlsproxy("run", "-c", file); s != exitFailure || !strings.Contains(errText, file+":2:25: listen tcp "+taken+": bind: address already in use") {
		t.Errorf("status %d: %s", s, errText)
	}
}

// TestStandardLog: what net/http says by the standard logger comes in the form of the log,
// here of a backend that sends more than it was asked for, without that, and no longer once
// the proxy ends.
func TestStandardLog(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			defer c.Close()
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok, and a secret")
			io.Copy(io.Discard, c)
		}
	}))
	defer backend.Close()
	cert := selfSigned(t)
	file := files(t, cert, "listen: ['127.0.0.1:0']\nbackends: {urls: '"+backend.URL+"'}\nlog: {format: json}\n")
	before := log.Writer()
	written := new(logtest.Buffer)
	ctx, stop := context.WithCancel(context.Background())
	status := start(ctx, written, "run", "--config", file)
	roots := x509.NewCertPool()
	roots.AddCert(cert.Leaf)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"}}}
	defer client.CloseIdleConnections()
	response, err := client.Get("https://" + written.Find(`"address":"([^"]+)"`) + "/")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	line := written.Find(`(?m)^(.*Unsolicited response.*)$`)
	var fields struct{ Level, Msg string }
	if err := json.Unmarshal([]byte(line), &fields); err != nil || fields.Level != "WARN" || fields.Msg != "Unsolicited response received on idle HTTP channel" {
		t.Errorf("%s: %v", line, err)
	}
	stop()
	if s := <-status; s != 0 || log.Writer() != before {
		t.Errorf("status %d; the standard logger writes to %v", s, log.Writer())
	}
}

// TestAdmin asks a running proxy how it is, over its admin listener.
func TestAdmin(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }))
	defer backend.Close()
	cert := selfSigned(t)
	file := files(t, cert, "listen: '127.0.0.1:0'\nbackends: {urls: '"+backend.URL+"'}\nadmin: {listen: ':0'}\nlog: {format: json}\n")
	log := new(logtest.Buffer)
	ctx, stop := context.WithCancel(context.Background())
	status := start(ctx, log, "run", "--config", file)
	address := log.Find(`"msg":"listening","address":"([^"]+)"`)
	admin := "http://" + log.Find(`"msg":"admin listener","address":"([^"]+)"`)

	roots := x509.NewCertPool()
	roots.AddCert(cert.Leaf)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost", CurvePreferences: groups.Default()}}}
	defer client.CloseIdleConnections()
	get := func(url string) string {
		t.Helper()
		response, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", url, response.Status)
		}
		return string(body)
	}
	get("https://" + address + "/")
	for path, holds := range map[string]string{
		"/metrics": `tlsproxy_handshakes_total{group="X25519CTRUPrime761",resumed="false",version="1.3"} 1`,
		"/status":  `"X25519CTRUPrime761": 1`,
		"/config":  "admin:\n  listen:\n  - localhost:0\n",
		"/healthz": "ok\n", "/readyz": "ready\n",
	} {
		if body := get(admin + path); !strings.Contains(body, holds) {
			t.Errorf("%s lacks %q: %s", path, holds, body)
		}
	}
	for _, want := range []string{`tlsproxy_kem_operations_total{engine="cpu",operation="server-exchange",scheme="CTRU-Prime-761"} `, `tlsproxy_requests_total{code="2xx",protocol="1"} 1`} {
		if body := get(admin + "/metrics"); !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	stop()
	if s := <-status; s != 0 {
		t.Errorf("status %d", s)
	}
}

// TestSignals: SIGHUP reloads. The first SIGTERM drains, and the process ends
// well; the second ends it at once.
func TestSignals(t *testing.T) {
	entered := make(chan bool, 1)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- true
		<-r.Context().Done()
	}))
	defer backend.Close()
	file := files(t, selfSigned(t), "listen: ['127.0.0.1:0']\nbackends: {urls: '"+backend.URL+"'}\ntimeouts: {drain: 1h}\n")
	for _, second := range []bool{false, true} {
		log := new(logtest.Buffer)
		process := exec.Command(os.Args[0], "run", "-c", file)
		process.Stderr = log
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		address := log.Find(`msg=listening address=(\S+)`)
		var client sync.WaitGroup
		if second { // a request that never ends holds up the draining
			client.Go(func() {
				c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
				if _, err := c.Get("https://" + address); err == nil {
					t.Error("a request that was cut got an answer")
				}
			})
			<-entered
		}
		process.Process.Signal(syscall.SIGHUP)
		log.Find(`msg=reloaded (because=SIGHUP)`)
		ended := make(chan error, 1)
		process.Process.Signal(syscall.SIGTERM)
		log.Find(`msg=draining because="terminated( signal received)?"`)
		go func() { ended <- process.Wait() }()
		if err := untilEnded(process, ended, second); (err != nil) != second {
			t.Errorf("second signal: %v; the process ended with %v", second, err)
		}
		client.Wait()
	}
}

// untilEnded waits for a process. If it is to be signalled again it is so until
// it ends: the handler of the first signal may still be there for a moment.
func untilEnded(process *exec.Cmd, ended <-chan error, signal bool) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
			if signal {
				process.Process.Signal(syscall.SIGTERM)
			}
		}
	}
}

// TestDemo runs it with very few handshakes.
func TestDemo(t *testing.T) {
	status, out, errText := tlsproxy("demo", "--rounds", "2", "--duration", "20ms", "--concurrency", "2")
	if status != 0 {
		t.Fatalf("status %d: %s", status, errText)
	}
	for _, want := range []string{
		"X25519CTRUPrime761 (0xFE76)", "X25519MLKEM768 (0x11EC)", "200", "Full TLS 1.3 handshakes:", "CPU to X25519",
		runtime.Version(), "ECDSA P-256 certificate, no resumption, 2 connections at once, medians of 2 interleaved rounds of 20ms",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestDemoJSON: the figures are there, and every group was measured.
func TestDemoJSON(t *testing.T) {
	status, out, errText := tlsproxy("demo", "--json", "--rounds", "1", "--duration", "20ms", "--concurrency", "1", "--groups", "X25519CTRUPrime653,X25519CTRUPrime1277")
	if status != 0 {
		t.Fatalf("status %d: %s", status, errText)
	}
	type row struct {
		Group     string
		Completed int
		PerSecond float64 `json:"per_second"`
		ServerCPU int64   `json:"server_cpu"`
		Ratios    []struct {
			Base      string
			ServerCPU float64 `json:"server_cpu"`
		}
	}
	var report struct{ Handshakes, Requests []row }
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	for _, table := range [][]row{report.Handshakes, report.Requests} {
		if len(table) != 2 || table[0].Group != "X25519CTRUPrime653" || table[1].Group != "X25519CTRUPrime1277" {
			t.Fatalf("%+v", table)
		}
		for _, row := range table {
			if row.Completed == 0 || row.PerSecond <= 0 || row.ServerCPU <= 0 || len(row.Ratios) != 1 || row.Ratios[0].Base != "X25519CTRUPrime653" || row.Ratios[0].ServerCPU <= 0 {
				t.Errorf("%+v", row)
			}
		}
	}
}

// start executes a command in the background, and tells its status when it has ended. From
// then on nobody waits for what the log has not.
func start(ctx context.Context, log *logtest.Buffer, args ...string) <-chan int {
	status := make(chan int, 1)
	go func() {
		defer log.End()
		status <- execute(ctx, args, nil, io.Discard, log)
	}()
	return status
}

// TestDemoKeep leaves the proxy running until it is told to stop.
func TestDemoKeep(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	errOut := new(logtest.Buffer)
	status := start(ctx, errOut, "demo", "--keep", "--rounds", "1", "--duration", "1ms", "--concurrency", "1", "--groups", "X25519")
	url := errOut.Find(`curl -kv (\S+)`)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 200 {
		t.Error(response.Status)
	}
	stop()
	if s := <-status; s != 0 {
		t.Errorf("status %d", s)
	}
}

// TestDemoInterrupted ends in good order.
func TestDemoInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	var errOut bytes.Buffer
	if s := execute(ctx, []string{"demo", "--duration", "1h"}, nil, io.Discard, &errOut); s != exitFailure || !strings.Contains(errOut.String(), "context canceled") {
		t.Errorf("status %d: %s", s, &errOut)
	}
}

// TestWithoutTheHook builds the program with the plain go command. It has to
// refuse what it cannot serve, and say how to get it.
func TestWithoutTheHook(t *testing.T) {
	program := filepath.Join(t.TempDir(), "tlsproxy")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false") // without gotls's -overlay
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
		return string(out), err
	}
	if out, err := run("version"); err != nil || !strings.Contains(out, "crypto/tls hook absent") || strings.Contains(out, "CTRUPrime") {
		t.Errorf("%v: %s", err, out)
	}
	const backends = "backends: {urls: http://127.0.0.1:1}\n"
	for name, file := range map[string]string{
		"default groups": files(t, selfSigned(t), backends),
		"named group":    files(t, selfSigned(t), backends+"tls: {groups: [X25519, X25519CTRUPrime653]}\n"),
	} {
		for _, command := range []string{"run", "check"} {
			out, err := run(command, "-c", file)
			for _, want := range []string{"tlsproxy: " + file + ":", "cannot be served", "gotls build", "or name only groups of crypto/tls itself"} {
				if err == nil || !strings.Contains(out, want) {
					t.Errorf("%s of %s: no %q in %v: %s", command, name, want, err, out)
				}
			}
		}
	}
	if out, err := run("check", "-c", files(t, selfSigned(t), backends+"tls: {groups: [X25519MLKEM768, X25519]}\n")); err != nil {
		t.Errorf("crypto/tls's own groups: %v: %s", err, out)
	}
	if out, err := run("demo"); err == nil || !strings.Contains(out, "group X25519CTRUPrime761 cannot be served") {
		t.Errorf("demo: %v: %s", err, out)
	}
}
