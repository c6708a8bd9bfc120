package service

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"math/big"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/tlsext"
)

// Serving from a file is tested with the program.

func TestMain(m *testing.M) {
	// go-redis's dialling notices within a second that its client was closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// plan is one for crypto/tls's own groups, so that these tests need no hook.
func plan(t *testing.T, change func(*config.Config)) *Plan {
	t.Helper()
	c, err := config.Parse("c.yaml", []byte("certificates: [{cert: a, key: b}]\nbackends: {urls: http://127.0.0.1:1}\nlisten: 127.0.0.1:0\ntls: {groups: [X25519MLKEM768, X25519]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(c)
	}
	cert, err := certificates.SelfSigned("a.example")
	if err != nil {
		t.Fatal(err)
	}
	p, err := LoadWith(c, cert)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRunEndsWithItsContext, even with a client in mid-handshake.
func TestRunEndsWithItsContext(t *testing.T) {
	var log bytes.Buffer
	s, err := plan(t, nil).Start(slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", s.Addresses()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx, nil) }()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, want := range []string{"msg=listening", `groups="X25519MLKEM768 X25519" hosts=0 pools=1`, `msg=draining because="context canceled" within=30s`, "msg=drained"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in %s", want, &log)
		}
	}
}

// TestRunEndsWithAListener: one that fails takes the service down, and its
// error is returned.
func TestRunEndsWithAListener(t *testing.T) {
	s, err := plan(t, func(c *config.Config) { c.Listen = append(c.Listen, config.ListenOn("127.0.0.1:0")) }).Start(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.listeners[1].Close()
	if err := s.Run(context.Background(), nil); err == nil || !strings.HasPrefix(err.Error(), "proxy: accepting on 127.0.0.1:") {
		t.Errorf("Run: %v", err)
	}
}

// TestStartErrors name the line, and leave nothing open.
func TestStartErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p := plan(t, func(c *config.Config) { c.Listen[0].Address = config.ListenAddress(taken.Addr().String()) })
	if _, err := p.Start(slog.New(slog.DiscardHandler)); err == nil || !strings.HasPrefix(err.Error(), "tlsproxy: c.yaml:3:9: listen tcp ") {
		t.Errorf("Start: %v", err)
	}
	p.Config.Listen = nil
	if _, err := p.Start(slog.New(slog.DiscardHandler)); err != errNoListener {
		t.Errorf("Start: %v", err)
	}
}

// certificate is one with a lifetime.
func certificate(t *testing.T, curve elliptic.Curve, from, to time.Duration) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "only.a.common.name"},
		NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(to)}
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

// hold replaces the certificate.
func (p *Plan) hold(t *testing.T, cert *tls.Certificate) {
	t.Helper()
	var err error
	if p.store, err = certificates.NewStore([]*tls.Certificate{cert}); err != nil {
		t.Fatal(err)
	}
}

func TestWarnings(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, test := range []struct {
		from, to time.Duration
		groups   []tls.CurveID
		requests int
		want     string
	}{
		{-year, year, []tls.CurveID{tls.X25519MLKEM768, tls.X25519}, 1, ""},
		{-year, -time.Hour, []tls.CurveID{tls.X25519MLKEM768, tls.X25519}, 1, "certificates[0] (only.a.common.name) expired at "},
		{time.Hour, year, []tls.CurveID{tls.X25519MLKEM768, tls.X25519}, 1, "certificates[0] (only.a.common.name) is not valid before "},
		{-year, time.Hour, []tls.CurveID{tls.X25519MLKEM768, tls.X25519}, 1, "certificates[0] (only.a.common.name) expires soon, at "},
		{-year, year, []tls.CurveID{tlsext.X25519CTRUPrime761, tls.X25519}, 1, "tls.groups leaves out X25519MLKEM768, "},
		{-year, year, []tls.CurveID{tls.X25519}, 1, "tls.groups names no post-quantum group; "},
		{-year, year, []tls.CurveID{tls.X25519MLKEM768}, 1, "tls.groups names no classical group; "},
		{-year, year, []tls.CurveID{tls.X25519MLKEM768, tls.X25519}, 1 << 30, "limits.connections and limits.requests can take "},
	} {
		p := plan(t, func(c *config.Config) {
			c.Limits.Connections, c.Limits.Requests = 1, test.requests
			c.TLS.Groups = nil
			for _, id := range test.groups {
				c.TLS.Groups = append(c.TLS.Groups, config.Group(id))
			}
		})
		p.hold(t, certificate(t, elliptic.P256(), test.from, test.to))
		got := p.Warnings()
		if test.want == "" && len(got) > 0 || test.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], test.want)) {
			t.Errorf("got %q, want one that begins with %q", got, test.want)
		}
		if line := p.Certificates()[0]; !strings.HasPrefix(line, "certificates[0]: only.a.common.name, ECDSA P-256, valid until ") {
			t.Error(line)
		}
	}
}

// TestOffWarnings: each time-out that can be off, and by default is not, is warned of when
// it is; drain apart, which is no bound on clients or backends.
func TestOffWarnings(t *testing.T) {
	off := config.Default().Timeouts
	if got := offWarnings(off); len(got) > 0 {
		t.Errorf("the defaults: %q", got)
	}
	var want []string
	v := reflect.ValueOf(&off).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		if bound := v.FieldByIndex(f.Index); f.Tag.Get("min") == "0" && !bound.IsZero() && f.Name != "Drain" {
			want = append(want, "timeouts."+f.Tag.Get("yaml"))
			bound.SetZero()
		}
	}
	got := offWarnings(off)
	for i := range got {
		got[i], _, _ = strings.Cut(got[i], " is off: ")
	}
	if len(want) < 6 || !slices.Equal(got, want) {
		t.Errorf("warned of %q, want %q", got, want)
	}
	p := plan(t, func(c *config.Config) { c.Timeouts.Write = 0 })
	if got := strings.Join(p.Warnings(), "\n"); !strings.Contains(got, "timeouts.write is off: clients can keep requests open for ever by taking nothing") {
		t.Error(got)
	}
}

// TestIdleWarnings: settings of what is switched off are told of, each by itself.
func TestIdleWarnings(t *testing.T) {
	for lines, want := range map[string]string{
		"":                                 "",
		"tls: {tickets: {enabled: false}}": "",
		"tls: {tickets: {enabled: false, secrets: s}}":                                                "tls.tickets.secrets is set, but tls.tickets.enabled is false: no session is resumed",
		"tracing: {endpoint: 'http://t', ratio: 0}":                                                   "tracing.endpoint is set, but tracing.ratio is 0 and tracing.trust names nobody: nothing is traced",
		"tracing: {endpoint: 'http://t', ratio: 0, trust: unix}":                                      "",
		"provider: {engine: cpu, gpu: {devices: [], sign: true}}":                                     "",
		"limits: {handshake_rate_per_source: 0, sources: 8}":                                          "limits.handshake_burst_per_source or limits.sources is set, but limits.handshake_rate_per_source is 0: a source may begin as many handshakes as it likes",
		"provider: {engine: cpu, gpu: {workers: 3}}":                                                  "provider.gpu has settings, but provider.engine is cpu: no GPU is used",
		"provider: {engine: auto, gpu: {workers: 3}}":                                                 "",
		"provider: {key_pool: 0}":                                                                     "",
		"provider: {key_pool: 7}":                                                                     "provider.key_pool is set, but no pool's tls.groups names a group of ours: no key pair is made ahead",
		"provider: {key_pool: 7}\npools: {p: {urls: 'https://b', tls: {groups: X25519CTRUPrime653}}}": "",
	} {
		c, err := config.Parse("c.yaml", []byte("certificates: [{cert: a, key: b}]\nbackends: {urls: http://127.0.0.1:1}\n"+lines))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(idleWarnings(c), "; "); got != want {
			t.Errorf("%s: %q, want %q", lines, got, want)
		}
	}
}

// TestSigningWarnings say why GPUs would sign nothing.
func TestSigningWarnings(t *testing.T) {
	for _, test := range []struct {
		engine config.Engine
		sign   bool
		want   string
	}{
		{config.EngineCPU, false, ""},
		{config.EngineCPU, true, "provider.gpu.sign is set, but provider.engine is cpu: no GPU signs"},
		{config.EngineAuto, true, ""},
	} {
		p := plan(t, func(c *config.Config) { c.Provider.Engine, c.Provider.GPU.Sign = test.engine, test.sign })
		if got := strings.Join(p.signingWarnings(), "; "); got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
	p := plan(t, func(c *config.Config) { c.Provider.Engine, c.Provider.GPU.Sign = config.EngineAuto, true })
	p.hold(t, certificate(t, elliptic.P384(), -time.Hour, time.Hour))
	if got := p.signingWarnings(); len(got) != 1 || !strings.Contains(got[0], "no certificate has an ECDSA key on P-256") {
		t.Errorf("%q", got)
	}
}

// TestFrontWarnings: whoever believes everybody is told.
func TestFrontWarnings(t *testing.T) {
	c, err := config.Parse("c.yaml", []byte("certificates: [{cert: a, key: b}]\nbackends: {urls: http://127.0.0.1:1}\n"+
		"listen: [':1', {address: ':2', proxy_protocol: {from: [10.0.0.0/8, '::/0']}}, {address: unix:/a, proxy_protocol: {from: unix}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := frontWarnings(c); len(got) != 1 || got[0] != "listen[1].proxy_protocol.from[1]: ::/0 is everybody; any client can claim any address" {
		t.Errorf("%q", got)
	}
}
