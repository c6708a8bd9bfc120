package service

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logtest"
)

// installation is a folder with a configuration and what it names, and a Service
// that runs it.
type installation struct {
	t       *testing.T
	dir     string
	log     *logtest.Buffer
	service *Service
	hangups chan os.Signal
	client  *http.Client // trusts every certificate
}

// install starts a Service with certificates for a.example and b.example, and with
// tickets as given.
func install(t *testing.T, rest string, change func(*config.Config), tickets ...string) *installation {
	t.Helper()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }))
	t.Cleanup(backend.Close)
	in := &installation{t: t, dir: t.TempDir(), log: new(logtest.Buffer), hangups: make(chan os.Signal)}
	in.certify("a", "a.example")
	in.certify("b", "b.example")
	in.configure("backends: {urls: '" + backend.URL + "'}\n" + rest)
	if len(tickets) > 0 {
		in.amend("tls: {", "tls: {tickets: {"+tickets[0]+"}, ")
	}
	p, err := LoadFile(in.file("c.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	p.Level = new(slog.LevelVar)
	if change != nil {
		change(p.Config)
	}
	if in.service, err = p.Start(slog.New(slog.NewTextHandler(in.log, nil))); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- in.service.Run(ctx, in.hangups) }()
	in.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "a.example"}}}
	t.Cleanup(func() {
		in.client.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return in
}

func (in *installation) file(name string) string { return filepath.Join(in.dir, name) }

// replace renames a new file over an old one.
func (in *installation) replace(name string, data []byte) {
	in.t.Helper()
	if err := os.WriteFile(in.file(name+".new"), data, 0o600); err != nil {
		in.t.Fatal(err)
	}
	if err := os.Rename(in.file(name+".new"), in.file(name)); err != nil {
		in.t.Fatal(err)
	}
}

// configure writes the configuration's file.
func (in *installation) configure(rest string) {
	in.replace("c.yaml", []byte("listen: '127.0.0.1:0'\ncertificates: [{folder: certificates}]\ntls: {groups: [X25519MLKEM768, X25519]}\n"+rest))
}

// certify makes a new certificate, chain and key in one file.
func (in *installation) certify(name string, hosts ...string) *x509.Certificate {
	in.t.Helper()
	cert, err := certificates.SelfSigned(hosts...)
	if err != nil {
		in.t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		in.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(in.file("certificates/"+name)), 0o700); err != nil {
		in.t.Fatal(err)
	}
	in.replace("certificates/"+name+".pem", append(
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...))
	return cert.Leaf
}

// served is the certificate that a new connection gets.
func (in *installation) served(name string) *x509.Certificate {
	in.t.Helper()
	c, err := tls.Dial("tcp", in.address(), &tls.Config{InsecureSkipVerify: true, ServerName: name})
	if err != nil {
		in.t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0]
}

func (in *installation) address() string { return in.service.Addresses()[0].String() }

// get sends a request, over the connection before if it can, and reports
// whether it could.
func (in *installation) get() (reused bool) {
	in.t.Helper()
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(in.t.Context(), trace), http.MethodGet, "https://"+in.address()+"/", nil)
	if err != nil {
		in.t.Fatal(err)
	}
	response, err := in.client.Do(request)
	if err != nil {
		in.t.Fatal(err)
	}
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); string(body) != "hello" {
		in.t.Errorf("%s %q", response.Status, body)
	}
	return reused
}

// hangup has the configuration read again and returns what was logged of it.
func (in *installation) hangup(until string) string {
	in.hangups <- syscall.SIGHUP
	return in.log.Take(until)
}

func (in *installation) wantLogged(log string, lines ...string) {
	in.t.Helper()
	for _, want := range lines {
		if !strings.Contains(log, want) {
			in.t.Errorf("no %s in\n%s", want, log)
		}
	}
}

// TestReloadConfiguration changes keys, one of which needs a restart, and then
// makes mistakes. A connection lasts through all of it.
func TestReloadConfiguration(t *testing.T) {
	in := install(t, "reload: {poll: 0}\n", nil)
	in.log.Take("listening")
	in.get()
	backends := fmt.Sprintf("backends: {urls: '%s'}\n", in.service.current().Config.Backends.URLs[0])
	rest := backends + "reload: {poll: 0}\ntimeouts: {drain: 1s}\nlimits: {streams: 7}\n"
	in.configure(rest)
	pool := in.service.current().open[config.DefaultPool]
	log := in.hangup("msg=reloaded")
	in.wantLogged(log, "level=INFO msg=changed key=timeouts.drain from=30s to=1s", `level=WARN msg="changed, but takes effect at a restart only" key=limits.streams from=250 to=7`,
		"msg=reloaded because=SIGHUP changes=2 certificates=2 new=0 gone=0")
	if c := in.service.current().Config; c.Limits.Streams != 250 || c.Timeouts.Drain != config.Duration(time.Second) {
		t.Errorf("in force are %+v %+v", c.Limits, c.Timeouts)
	}
	if in.service.current().open[config.DefaultPool] == pool {
		t.Error("new time-outs, and the old backends")
	}
	in.wantLogged(in.hangup("msg=reloaded"), `takes effect at a restart only" key=limits.streams`, "changes=1 ")
	rest += "log: {level: debug}\n"
	in.configure(rest)
	in.wantLogged(in.hangup("msg=reloaded"), "msg=changed key=log.level from=info to=debug")
	if level := in.service.current().Level.Level(); level != slog.LevelDebug {
		t.Errorf("the level is %v", level)
	}

	renewed := in.certify("a", "a.example")
	in.configure(rest + "timeuots: {}\n")
	in.wantLogged(in.hangup("stays as it was"), "level=ERROR", `because=SIGHUP err="tlsproxy: `+in.file("c.yaml")+`:9:1: unknown key \"timeuots\"; did you mean \"timeouts\"?"`)
	if in.served("a.example").Equal(renewed) {
		t.Error("a certificate was taken up with a faulty configuration")
	}
	in.configure(rest + "pools: {p: {urls: 'https://b', ca: absent.pem}}\n")
	in.wantLogged(in.hangup("stays as it was"), ":9:36: open "+in.file("absent.pem"))
	if !in.service.state().ReloadFailing {
		t.Error("the metrics say that all is well")
	}
	in.configure(rest)
	pool = in.service.current().open[config.DefaultPool]
	in.wantLogged(in.hangup("msg=reloaded"), "certificates=2 new=1 gone=1")
	if !in.served("a.example").Equal(renewed) {
		t.Error("the renewed certificate is not served")
	}
	if in.service.current().open[config.DefaultPool] != pool {
		t.Error("the same backends were opened again")
	}
	if !in.get() {
		t.Error("the connection did not last")
	}
	if st := in.service.state(); st.Reloads != 4 || st.ReloadFailures != 2 || st.ReloadFailing {
		t.Errorf("counted are %d reloads and %d failures; failing: %v", st.Reloads, st.ReloadFailures, st.ReloadFailing)
	}
}

// TestReloadByPolling takes up a renewed certificate, keeps one that is replaced
// by a faulty one, tells of each fault once, and takes up the configuration itself
// if it is to.
func TestReloadByPolling(t *testing.T) {
	often := func(c *config.Config) { c.Reload.Poll = config.Duration(2 * time.Millisecond) }
	in := install(t, "", often)
	in.log.Take("listening")
	old := in.served("b.example")
	renewed := in.certify("a", "a.example")
	in.wantLogged(in.log.Take("msg=reloaded"), `because="changed files" changes=0 certificates=2 new=1 gone=1`)
	if !in.served("a.example").Equal(renewed) || !in.served("b.example").Equal(old) {
		t.Error("not the certificates wanted")
	}
	in.replace("certificates/b.pem", []byte("not PEM"))
	log := in.log.Take("msg=reloaded")
	in.certify("c", "c.example")
	log += in.log.Take("msg=reloaded")
	if n := strings.Count(log, "a certificate could not be read"); n != 1 || !strings.Contains(log, "what was read before stays in use") {
		t.Errorf("told %d times in\n%s", n, log)
	}
	if !in.served("b.example").Equal(old) {
		t.Error("the certificate that was read before is not in use any more")
	}
	if !in.service.state().ReloadFailing {
		t.Error("the metrics say that all is well")
	}
	again := in.certify("b", "b.example")
	in.log.Take("msg=reloaded")
	if !in.served("b.example").Equal(again) {
		t.Error("the repaired certificate is not in use")
	}
	if in.service.state().ReloadFailing {
		t.Error("the metrics say that something is wrong")
	}

	in.configure("nonsense\n")
	in.certify("d", "d.example")
	if log := in.log.Take("msg=reloaded"); strings.Contains(log, "nonsense") {
		t.Errorf("the configuration was read unasked:\n%s", log)
	}
	in.hangup("stays as it was")
	in.certify("e", "e.example")
	in.log.Take("msg=reloaded")
	if !in.service.state().ReloadFailing { // the configuration is as faulty as before
		t.Error("the metrics say that all is well")
	}
}

// TestReloadByPollingOfTheConfiguration tells of a mistake once.
func TestReloadByPollingOfTheConfiguration(t *testing.T) {
	in := install(t, "reload: {poll: 100ms, configuration: true}\n", nil)
	in.log.Take("listening")
	backends := fmt.Sprintf("backends: {urls: '%s'}\n", in.service.current().Config.Backends.URLs[0])
	in.configure("nonsense\n")
	log := in.log.Take("everything stays as it was")
	in.configure(backends + "timeouts: {write: 2m}\n")
	log += in.log.Take("msg=reloaded")
	if strings.Count(log, "everything stays as it was") != 1 {
		t.Errorf("told more than once:\n%s", log)
	}
	in.wantLogged(log, "key=timeouts.write from=1m to=2m", "key=reload.configuration from=true to=false")
}

// TestReloadByTimer finds what looks the same and is not.
func TestReloadByTimer(t *testing.T) {
	in := install(t, "reload: {poll: 0}\n", func(c *config.Config) { c.Reload.Every = config.Duration(5 * time.Millisecond) })
	in.log.Take("listening")
	renewed := in.certify("a", "a.example")
	in.wantLogged(in.log.Take("msg=reloaded"), "because=reload.every", "new=1 gone=1")
	if !in.served("a.example").Equal(renewed) {
		t.Error("the renewed certificate is not served")
	}
}

// TestReloadUnderLoad: while certificates and configuration are replaced all the
// time, no handshake and no request fails.
func TestReloadUnderLoad(t *testing.T) {
	in := install(t, "reload: {poll: 0}\n", nil)
	in.log.Take("listening")
	backends := fmt.Sprintf("backends: {urls: '%s'}\n", in.service.current().Config.Backends.URLs[0])
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for i := range 4 {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "b.example"}, DisableKeepAlives: i%2 == 0}
		client := &http.Client{Transport: transport}
		clients.Go(func() {
			defer transport.CloseIdleConnections()
			for ctx.Err() == nil {
				response, err := client.Get("https://" + in.address() + "/")
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(response.Body)
				response.Body.Close()
				if string(body) != "hello" || err != nil {
					t.Errorf("%d %q %v", response.StatusCode, body, err)
				}
			}
		})
	}
	for i := range 20 {
		renewed := in.certify("a", "a.example")
		in.configure(strings.Replace(backends, "{", fmt.Sprintf("{eject_after: %d, ", i+4), 1) + "reload: {poll: 0}\n")
		in.wantLogged(in.hangup("msg=reloaded"), "key=backends.eject_after")
		if !in.served("a.example").Equal(renewed) {
			t.Error("the renewed certificate is not served")
		}
	}
	stop()
	clients.Wait()
}
