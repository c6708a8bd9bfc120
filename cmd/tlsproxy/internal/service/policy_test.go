package service

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

// resumes makes a connection with a session of the cache and reports whether it
// was resumed. The answer that it reads comes after the ticket.
func (in *installation) resumes(cache tls.ClientSessionCache) bool {
	in.t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "a.example", ClientSessionCache: cache}}}
	response, err := c.Get("https://" + in.address() + "/")
	if err != nil {
		in.t.Fatal(err)
	}
	response.Body.Close()
	return response.TLS.DidResume
}

// shared is a cache of sessions for the name that a client asks for, whatever the
// address: crypto/tls asks by ServerName.
func shared() tls.ClientSessionCache { return tls.NewLRUClientSessionCache(1) }

// TestSharedSecrets has two proxies resume each other's sessions by one file, and
// no longer once one of them has another.
func TestSharedSecrets(t *testing.T) {
	const rest = "reload: {poll: 0}\n"
	a, b := install(t, rest, nil), install(t, rest, nil)
	a.log.Take("listening")
	b.log.Take("listening")
	cache := shared()
	if a.resumes(cache) || !a.resumes(cache) {
		t.Error("a session cannot be resumed where it was made")
	}
	if b.resumes(cache) {
		t.Error("a session is resumed elsewhere, with random keys")
	}

	secret := strings.Repeat("s", 32)
	for _, in := range []*installation{a, b} {
		in.replace("secrets", []byte("# shared\n"+base64.StdEncoding.EncodeToString([]byte(secret))+"\n"))
		urls := in.service.current().Config.Backends.URLs[0].String()
		in.configure("backends: {urls: '" + urls + "'}\n" + rest)
		in.amend("tls: {", "tls: {tickets: {secrets: secrets}, ")
		in.wantLogged(in.hangup("msg=reloaded"), `key=tls.tickets.secrets`)
	}
	cache = shared()
	if a.resumes(cache) || !b.resumes(cache) || !a.resumes(cache) {
		t.Error("a session is not resumed at the other proxy")
	}

	b.replace("secrets", []byte(base64.StdEncoding.EncodeToString([]byte(strings.Repeat("t", 32)))))
	b.hangup("msg=reloaded")
	if b.resumes(cache) {
		t.Error("a session is resumed with another secret")
	}
	log := func() string { b.replace("secrets", []byte(secret)); return b.hangup("stays as it was") }() // not in base64
	if strings.Contains(log, secret) {
		t.Error("the log holds a secret")
	}
	b.wantLogged(log, "secrets:1: not a secret of at least 32 bytes")
}

// TestSharedStore has two proxies resume each other's sessions by a store, also
// after it has gone away.
func TestSharedStore(t *testing.T) {
	server := miniredis.RunT(t)
	server.RequireAuth("password")
	address := server.Addr()
	proxies := make([]*installation, 2)
	for i := range proxies {
		dir := t.TempDir()
		for name, text := range map[string]string{"password": "password\n", "secrets": base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		proxies[i] = install(t, "reload: {poll: 0}\n", nil, fmt.Sprintf("secrets: %q, store: {url: 'redis://%s/1', password_file: %q}",
			filepath.Join(dir, "secrets"), address, filepath.Join(dir, "password")))
	}
	a, b := proxies[0], proxies[1]
	cache := shared()
	if a.resumes(cache) || !b.resumes(cache) || !a.resumes(cache) {
		t.Error("a session is not resumed at the other proxy")
	}
	if len(server.DB(1).Keys()) != 2 {
		t.Errorf("the store holds %v", server.DB(1).Keys())
	}
	ours := fmt.Sprintf("secrets: %q, store: {url: 'redis://%s/1', password_file: %q}", a.service.current().Config.TLS.Tickets.Secrets, address, a.service.current().Config.TLS.Tickets.Store.Password)
	for _, without := range []string{"rotate: 12h", "lifetime: 36h"} { // the store stays in use until a restart
		a.amend(ours, without)
		a.wantLogged(a.hangup("stays as it was"), "tls.tickets.store takes effect at a restart only, and needs tls.tickets.secrets until then; leave them where they are")
		a.amend(without, ours)
	}
	other := strings.Replace(ours, "password_file", "username: u, password_file", 1)
	a.amend(ours, other+", lifetime: 36h") // what it is asked with does too
	a.wantLogged(a.hangup("msg=reloaded"), "key=tls.tickets.store.username", "key=tls.tickets.lifetime from=24h to=36h")
	if !a.resumes(cache) || !b.resumes(cache) {
		t.Error("a session is not resumed after what should have changed nothing")
	}
	server.Close()
	b.hangup("msg=reloaded")
	if !b.resumes(cache) || !a.resumes(cache) {
		t.Error("a session is not resumed without the store")
	}
	c := install(t, "reload: {poll: 0}\n", nil, fmt.Sprintf("secrets: %q, store: {url: 'redis://%s/1'}", b.service.current().Config.TLS.Tickets.Secrets, address))
	c.wantLogged(c.log.Take("listening"), "level=ERROR msg=\"the store of session ticket keys fails")
	cache = shared()
	if c.resumes(cache) || !c.resumes(cache) {
		t.Error("a proxy that never had the store cannot resume its own sessions")
	}
}

// amend replaces text in the configuration's file.
func (in *installation) amend(old, new string) {
	in.t.Helper()
	data, err := os.ReadFile(in.file("c.yaml"))
	if err != nil || !strings.Contains(string(data), old) {
		in.t.Fatalf("no %q in %s (%v)", old, data, err)
	}
	in.replace("c.yaml", []byte(strings.Replace(string(data), old, new, 1)))
}

// TestHostPolicies has certificates and authorities of a host's own, which are
// taken up by polling too.
func TestHostPolicies(t *testing.T) {
	in := install(t, "", nil)
	in.log.Take("listening")
	own := in.certify("own/own", "a.example")
	clients := in.certify("clients", "client.example")
	in.replace("clients.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: clients.Raw}))
	urls := in.service.current().Config.Backends.URLs[0].String()
	in.configure("backends: {urls: '" + urls + "'}\nhosts:\n- {names: a.example, certificates: {folder: certificates/own}}\n" +
		"- {names: [b.example, other.example], tls: {groups: X25519, client_auth: {mode: require, ca: clients.pem}}}\n")
	log := in.hangup("msg=reloaded")
	in.wantLogged(log, "certificates=5")
	if !in.served("a.example").Equal(own) {
		t.Error("the host's own certificate is not served")
	}
	if in.served("b.example").Equal(own) {
		t.Error("a host's own certificate is served for another")
	}
	warnings := strings.Join(in.service.current().Warnings(), "\n")
	for _, want := range []string{"hosts[1].tls.groups names no post-quantum group", "hosts[1]: no certificate is valid for other.example"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("no %s in\n%s", want, warnings)
		}
	}
	described := strings.Join(in.service.current().Hosts(), "\n")
	want := "hosts[0]: a.example: http to pool default, TLS 1.2 or later, groups X25519MLKEM768 X25519, protocols h2 http/1.1\n" +
		"hosts[1]: b.example, other.example: http to pool default, TLS 1.2 or later, groups X25519, protocols h2 http/1.1, client certificates: require\n" +
		"unknown_host: http to pool default, TLS 1.2 or later, groups X25519MLKEM768 X25519, protocols h2 http/1.1"
	if described != want {
		t.Errorf("got\n%s\nwant\n%s", described, want)
	}
	certs := strings.Join(in.service.current().Certificates(), "\n")
	if !strings.Contains(certs, "hosts[0].certificates[0] "+in.file("certificates/own/own.pem")+": a.example, ECDSA P-256, valid until ") {
		t.Error(certs)
	}
	in.amend("ca: clients.pem", "ca: absent.pem")
	in.wantLogged(in.hangup("stays as it was"), "c.yaml:7:94: open "+in.file("absent.pem"))
}

// TestPassthroughOnly needs no certificate at all.
func TestPassthroughOnly(t *testing.T) {
	c, err := config.Parse("c.yaml", []byte("tls: {groups: [X25519MLKEM768, X25519]}\npools: {raw: {urls: 'tcp://127.0.0.1:1'}}\nunknown_host: refuse\nhosts: [{names: a.example, mode: passthrough, pool: raw}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Load(c); err != nil {
		t.Error(err)
	}
}
