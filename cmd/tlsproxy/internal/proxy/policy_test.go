package proxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/routing"
)

// clientAuthority vouches for clients.
type clientAuthority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// The authorities, and what the configuration calls their files.
var (
	authorityA, authorityB = newClientAuthority(1), newClientAuthority(2)
	clientCAs              = map[string]*certificates.Authorities{"a.pem": authorityA.pool(), "b.pem": authorityB.pool()}
)

func newClientAuthority(serial int64) *clientAuthority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "clients"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return &clientAuthority{cert, key}
}

func (a *clientAuthority) pool() *certificates.Authorities {
	p := &certificates.Authorities{Pool: x509.NewCertPool(), Sum: [32]byte(a.cert.SerialNumber.FillBytes(make([]byte, 32)))}
	p.Pool.AddCert(a.cert)
	return p
}

// client makes a client's certificate for names as config.ClientName has them.
func (a *clientAuthority) client(t *testing.T, names ...string) *tls.Certificate {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(3), NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, name := range names {
		switch kind, value, _ := strings.Cut(name, ":"); kind {
		case "cn":
			template.Subject.CommonName = value
		case "dns":
			template.DNSNames = append(template.DNSNames, value)
		case "email":
			template.EmailAddresses = append(template.EmailAddresses, value)
		case "uri":
			u, err := url.Parse(value)
			if err != nil {
				t.Fatal(err)
			}
			template.URIs = append(template.URIs, u)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
}

// host is one over HTTP with a policy of its own.
func host(name config.HostName, policy config.HostTLS) config.Host {
	return config.Host{Names: []config.HostName{name}, Mode: config.ModeHTTP, Pool: config.DefaultPool, TLS: policy}
}

func requiring(ca string, names ...config.ClientName) config.HostTLS {
	return config.HostTLS{ClientAuth: config.ClientAuth{Mode: config.ClientAuthRequire, CA: ca, Allow: names}}
}

// oneSession is a client's cache that offers whatever session it was given last,
// to any server.
type oneSession struct {
	mu      sync.Mutex
	session *tls.ClientSessionState
}

func (o *oneSession) Get(string) (*tls.ClientSessionState, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.session, o.session != nil
}

func (o *oneSession) Put(_ string, s *tls.ClientSessionState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s != nil {
		o.session = s
	}
}

// handshakeWith connects and, as with TLS 1.3 a server's last word on a client's
// certificate comes after its handshake, reads the answer to a request.
func (r *rig) handshakeWith(c *tls.Config) (tls.ConnectionState, string, error) {
	r.t.Helper()
	raw, err := r.dial(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	defer raw.Close()
	if c.RootCAs == nil {
		c.RootCAs = r.roots
	}
	conn := tls.Client(raw, c)
	if err := conn.Handshake(); err != nil {
		return conn.ConnectionState(), "", err
	}
	state := conn.ConnectionState()
	if state.NegotiatedProtocol == "h2" {
		return state, "", nil
	}
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+c.ServerName+"\r\nConnection: close\r\n\r\n"); err != nil {
		return state, "", err
	}
	answer, err := io.ReadAll(conn)
	status, _, _ := strings.Cut(strings.TrimPrefix(string(answer), "HTTP/1.1 "), " ")
	return state, status, err
}

// TestResumptionStaysWithItsHost offers the session of each host to each: it is
// resumed where the server name is the same, and nowhere else. crypto/tls by itself
// would resume nearly all, also past the demand for a certificate.
func TestResumptionStaysWithItsHost(t *testing.T) {
	names := []string{"a.example.org", "b.example.org", "first.example.org", "second.example.org", "wild.example.org", "wilder.example.org"}
	r := newRig(t, func(c *config.Config) {
		c.Hosts = []config.Host{
			host("a.example.org", config.HostTLS{}),
			host("b.example.org", config.HostTLS{}),
			host("first.example.org", requiring("a.pem")),
			host("second.example.org", config.HostTLS{ClientAuth: config.ClientAuth{Mode: config.ClientAuthRequest, CA: "b.pem"}}),
			host("*.example.org", requiring("a.pem")),
		}
	}, hello)
	certs := map[string]*tls.Certificate{"first.example.org": authorityA.client(t, "cn:a"), "second.example.org": authorityB.client(t, "cn:b"),
		"wild.example.org": authorityA.client(t, "cn:a"), "wilder.example.org": authorityA.client(t, "cn:a")}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, from := range names {
			for _, to := range names {
				cache := &oneSession{}
				dial := func(name string) (tls.ConnectionState, string, error) {
					c := &tls.Config{ServerName: name, ClientSessionCache: cache, MaxVersion: version, CurvePreferences: []tls.CurveID{tls.X25519}}
					c.InsecureSkipVerify = true // else the client itself leaves out sessions of other names
					if cert := certs[name]; cert != nil {
						c.Certificates = []tls.Certificate{*cert}
					}
					return r.handshakeWith(c)
				}
				if state, status, err := dial(from); err != nil || state.DidResume || status != "200" {
					t.Fatalf("%s: %s %v, resumed: %v", from, status, err, state.DidResume)
				}
				if cache.session == nil {
					t.Fatalf("%s: no ticket", from)
				}
				state, status, err := dial(to)
				if err != nil || status != "200" || state.DidResume != (from == to) {
					t.Errorf("%s, a session of %s at %s: status %s, %v, resumed: %v", tls.VersionName(version), from, to, status, err, state.DidResume)
				}
			}
		}
	}
}

// TestSessionIsNoCertificate: a client that has none does not get past the demand
// for one with a session of another host.
func TestSessionIsNoCertificate(t *testing.T) {
	r := newRig(t, func(c *config.Config) {
		c.Hosts = []config.Host{host("a.example.org", config.HostTLS{}), host("b.example.org", requiring("a.pem"))}
	}, hello)
	cache := &oneSession{}
	dial := func(name string) (tls.ConnectionState, string, error) {
		return r.handshakeWith(&tls.Config{ServerName: name, ClientSessionCache: cache, InsecureSkipVerify: true})
	}
	if _, status, err := dial("a.example.org"); err != nil || status != "200" || cache.session == nil {
		t.Fatal(status, err)
	}
	if _, status, err := dial("b.example.org"); err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("status %s, %v", status, err)
	}
}

// TestTicketsDisabled: without them nothing is resumed.
func TestTicketsDisabled(t *testing.T) {
	r := newRig(t, nil, hello)
	o := r.options
	o.Tickets = nil
	r.server.Update(o)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		cache := &oneSession{}
		if _, status, err := r.handshakeWith(&tls.Config{ServerName: "front.example", ClientSessionCache: cache, MaxVersion: version}); err != nil || status != "200" || cache.session != nil {
			t.Errorf("%s, %v, ticket: %v", status, err, cache.session != nil)
		}
	}
}

// TestRequireHybrid: a host turns away clients without a post-quantum group, by
// an alert that says so; others are served, and so is everybody by another host.
func TestRequireHybrid(t *testing.T) {
	r := newRig(t, func(c *config.Config) {
		c.Hosts = []config.Host{host("a.example.org", config.HostTLS{RequireHybrid: "true"}), host("b.example.org", config.HostTLS{})}
	}, hello)
	for _, test := range []struct {
		name    string
		groups  []tls.CurveID
		version uint16
		refused bool
	}{
		{"a.example.org", []tls.CurveID{tls.X25519, tls.CurveP256}, 0, true},
		{"a.example.org", []tls.CurveID{tls.X25519MLKEM768, tls.X25519}, tls.VersionTLS12, true},
		{"a.example.org", []tls.CurveID{tls.X25519MLKEM768, tls.X25519}, 0, false},
		{"a.example.org", nil, 0, false},
		{"b.example.org", []tls.CurveID{tls.X25519, tls.CurveP256}, 0, false},
		{"b.example.org", nil, tls.VersionTLS12, false},
	} {
		r.log.reset()
		state, status, err := r.handshakeWith(&tls.Config{ServerName: test.name, CurvePreferences: test.groups, MaxVersion: test.version})
		if !test.refused {
			if err != nil || status != "200" {
				t.Errorf("%+v: %s %v", test, status, err)
			}
			if test.name == "a.example.org" && (state.CurveID == tls.X25519 || state.CurveID == tls.CurveP256) {
				t.Errorf("%+v: %v", test, state.CurveID)
			}
			continue
		}
		if err == nil || err.Error() != "remote error: tls: insufficient security level" {
			t.Errorf("%+v: %s %v", test, status, err)
		}
		line := r.log.wait("TLS handshake failed")
		for _, want := range []string{`reason="a post-quantum group is required, and the client offers none that is served"`, `alert_sent="insufficient security level"`, "sni=a.example.org"} {
			if !strings.Contains(line, want) {
				t.Errorf("no %s in %s", want, line)
			}
		}
	}
}

// TestClientCertificates goes through modes, authorities and names.
func TestClientCertificates(t *testing.T) {
	request := requiring("a.pem", "cn:someone")
	request.ClientAuth.Mode = config.ClientAuthRequest
	r := newRig(t, func(c *config.Config) {
		c.TLS.ClientAuth = config.ClientAuth{Mode: config.ClientAuthRequire, CA: "b.pem"}
		c.Hosts = []config.Host{
			host("any.example.org", requiring("a.pem")),
			host("names.example.org", requiring("a.pem", "cn:someone", "dns:*.clients.example", "email:a@example.org", "uri:spiffe://td/ns/*", "dns:One.example")),
			host("request.example.org", request),
			host("none.example.org", config.HostTLS{ClientAuth: config.ClientAuth{Mode: config.ClientAuthNone}}),
			host("whole.example.org", config.HostTLS{}),
		}
	}, hello)
	a, b := authorityA, authorityB
	const required, unverified, notAllowed = "certificate required", "unknown certificate authority", "bad certificate"
	for _, test := range []struct {
		host   string
		client *tls.Certificate
		want   string // of the error; "": none
	}{
		{"any", nil, required}, {"any", a.client(t), ""}, {"any", b.client(t), unverified},
		{"names", nil, required}, {"names", a.client(t, "cn:someone"), ""}, {"names", a.client(t, "cn:someone else"), notAllowed},
		{"names", b.client(t, "cn:someone"), unverified}, {"names", a.client(t, "dns:someone"), notAllowed},
		{"names", a.client(t, "dns:a.clients.example"), ""}, {"names", a.client(t, "dns:a.b.clients.example"), notAllowed},
		{"names", a.client(t, "dns:clients.example"), notAllowed}, {"names", a.client(t, "dns:ONE.example"), ""},
		{"names", a.client(t, "email:a@example.org"), ""}, {"names", a.client(t, "email:b@example.org"), notAllowed},
		{"names", a.client(t, "uri:spiffe://td/ns/a"), ""}, {"names", a.client(t, "uri:spiffe://td2/ns/a"), notAllowed},
		{"names", a.client(t, "cn:no", "dns:no", "uri:spiffe://td/ns/"), ""},
		{"request", nil, ""}, {"request", a.client(t, "cn:someone"), ""}, {"request", a.client(t, "cn:no"), notAllowed}, {"request", b.client(t, "cn:someone"), unverified},
		{"none", nil, ""}, {"none", b.client(t), ""},
		{"whole", nil, required}, {"whole", b.client(t), ""}, {"whole", a.client(t), unverified},
	} {
		c := &tls.Config{ServerName: test.host + ".example.org"}
		if test.client != nil {
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return test.client, nil }
		}
		_, status, err := r.handshakeWith(c)
		if test.want == "" && (err != nil || status != "200") || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: status %s, %v, want %q", test.host, status, err, test.want)
		}
	}
	if line := r.log.wait("has no name that is allowed: cn:someone else"); !strings.Contains(line, "level=INFO") {
		t.Error(line)
	}
}

// TestResumptionAfterAChange: when a host comes to demand something else, sessions
// of before are not resumed, and open connections answer no more requests.
func TestResumptionAfterAChange(t *testing.T) {
	r := newRig(t, func(c *config.Config) {
		c.Hosts = []config.Host{host("a.example.org", requiring("a.pem", "cn:someone", "cn:else")), host("b.example.org", config.HostTLS{})}
	}, hello)
	cache := &oneSession{}
	dial := func() (tls.ConnectionState, string, error) {
		return r.handshakeWith(&tls.Config{ServerName: "a.example.org", ClientSessionCache: cache, Certificates: []tls.Certificate{*authorityA.client(t, "cn:someone")}})
	}
	for _, resumed := range []bool{false, true} {
		if state, status, err := dial(); err != nil || status != "200" || state.DidResume != resumed {
			t.Fatal(state.DidResume, status, err)
		}
	}
	keep := map[string]*tls.Conn{}
	for _, name := range []string{"a.example.org", "b.example.org"} {
		raw, err := r.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		keep[name] = tls.Client(raw, &tls.Config{ServerName: name, RootCAs: r.roots, Certificates: []tls.Certificate{*authorityA.client(t, "cn:someone")}})
		if status, _ := r.exchange(keep[name], name, "/"); status != 200 {
			t.Fatal(name, status)
		}
	}

	change := func(policy config.HostTLS) {
		c := *r.config
		c.Hosts = []config.Host{host("a.example.org", policy), host("b.example.org", config.HostTLS{})}
		o := r.options
		table, err := routing.New(&c, r.pools)
		if err != nil {
			t.Fatal(err)
		}
		o.Config, o.Hosts = &c, table
		r.server.Update(o)
	}
	same := requiring("a.pem", "cn:someone", "cn:else")
	same.MinVersion = tls.VersionTLS13
	change(same)
	if state, _, err := dial(); err != nil || !state.DidResume {
		t.Errorf("the same is demanded, and the session is not resumed: %v", err)
	}
	if status, _ := r.exchange(keep["a.example.org"], "a.example.org", "/"); status != 200 {
		t.Errorf("the same is demanded, and the connection gets %d", status)
	}
	change(requiring("a.pem", "cn:else"))
	if state, _, err := dial(); err == nil || state.DidResume {
		t.Errorf("no longer allowed, and served: resumed %v", state.DidResume)
	}
	for name, want := range map[string]int{"a.example.org": 421, "b.example.org": 200} {
		if status, _ := r.exchange(keep[name], name, "/"); status != want {
			t.Errorf("a connection of before to %s gets %d, want %d", name, status, want)
		}
	}
}

// TestALPN: each host speaks its own protocols.
func TestALPN(t *testing.T) {
	raw := serveBytes(t, func(c net.Conn) { io.Copy(c, c) })
	r := newRig(t, func(c *config.Config) {
		c.Pools = map[string]config.Pool{"raw": pool(raw)}
		c.Hosts = []config.Host{
			host("h1.example.org", config.HostTLS{ALPN: []config.ProtocolName{"http/1.1"}}),
			host("h2.example.org", config.HostTLS{ALPN: []config.ProtocolName{"h2"}}),
			host("both.example.org", config.HostTLS{}),
			{Names: []config.HostName{"mqtt.example.org"}, Mode: config.ModeTCP, Pool: "raw", TLS: config.HostTLS{ALPN: []config.ProtocolName{"mqtt"}}},
			{Names: []config.HostName{"raw.example.org"}, Mode: config.ModeTCP, Pool: "raw"},
		}
	}, hello)
	for name, want := range map[string]string{"h1": "http/1.1", "h2": "h2", "both": "h2", "mqtt": "mqtt", "raw": ""} {
		c, err := net.Dial("tcp", r.address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conn := tls.Client(c, &tls.Config{ServerName: name + ".example.org", RootCAs: r.roots, NextProtos: []string{"h2", "http/1.1", "mqtt"}})
		if err := conn.Handshake(); err != nil || conn.ConnectionState().NegotiatedProtocol != want {
			t.Errorf("%s: %q, %v", name, conn.ConnectionState().NegotiatedProtocol, err)
		}
	}
	for name, offered := range map[string]string{"h1": "h2", "mqtt": "h2"} {
		_, _, err := r.handshakeWith(&tls.Config{ServerName: name + ".example.org", NextProtos: []string{offered}})
		var alert tls.AlertError
		if err == nil || errors.As(err, &alert) || !strings.Contains(err.Error(), "no application protocol") {
			t.Errorf("%s, offered %s: %v", name, offered, err)
		}
	}
}

// TestClientCertHeader hands on the certificate that was verified, and never what a
// client says itself.
func TestClientCertHeader(t *testing.T) {
	for _, on := range []bool{false, true} {
		var seen http.Header
		r := newRig(t, func(c *config.Config) {
			c.Headers.ClientCert = on
			policy := requiring("a.pem")
			policy.ClientAuth.Mode = config.ClientAuthRequest
			c.Hosts = []config.Host{host("a.example.org", policy)}
		}, func(w http.ResponseWriter, req *http.Request) { seen = req.Header })
		client := authorityA.client(t, "cn:a")
		for _, cert := range []*tls.Certificate{nil, client} {
			raw, err := r.dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			c := &tls.Config{ServerName: "a.example.org", RootCAs: r.roots}
			want := ""
			if cert != nil {
				c.Certificates = []tls.Certificate{*cert}
				if on {
					want = ":" + base64.StdEncoding.EncodeToString(cert.Certificate[0]) + ":"
				}
			}
			conn := tls.Client(raw, c)
			io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.example.org\r\nClient-Cert: :ZXZpbA==:\r\nclient_cert: evil\r\nClient-Cert-Chain: :ZXZpbA==:\r\nConnection: close\r\n\r\n")
			if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
				t.Fatalf("%q %v", answer, err)
			}
			if got := seen.Get("Client-Cert"); got != want || seen["Client_cert"] != nil || seen["Client-Cert-Chain"] != nil {
				t.Errorf("on %v, a certificate %v: %v", on, cert != nil, seen)
			}
		}
	}
}
