package certificates

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func selfSigned(t *testing.T, hosts ...string) *tls.Certificate {
	t.Helper()
	cert, err := SelfSigned(hosts...)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// write stores a certificate and a key as PEM and returns the names.
func write(t *testing.T, cert *tls.Certificate, key crypto.PrivateKey) (certFile, keyFile string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: cert.Certificate[0]},
		keyFile:  {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

func TestLoad(t *testing.T) {
	cert := selfSigned(t, "a.example")
	certFile, keyFile := write(t, cert, cert.PrivateKey)
	loaded, err := Load(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Leaf == nil || loaded.Leaf.DNSNames[0] != "a.example" {
		t.Errorf("leaf: %v", loaded.Leaf)
	}
	pool, err := LoadPool(certFile)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "a.example"}); err != nil {
		t.Error(err)
	}
}

func TestLoadErrors(t *testing.T) {
	cert, other := selfSigned(t, "a.example"), selfSigned(t, "a.example")
	certFile, keyFile := write(t, cert, cert.PrivateKey)
	_, otherKey := write(t, other, other.PrivateKey)
	dir := t.TempDir()
	absent := filepath.Join(dir, "absent.pem")
	large := filepath.Join(dir, "large.pem")
	if err := os.WriteFile(large, make([]byte, maxFileBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ cert, key, want string }{
		{absent, keyFile, "open " + absent + ": no such file or directory"},
		{certFile, absent, "open " + absent + ": no such file or directory"},
		{certFile, otherKey, "certificate " + certFile + " with key " + otherKey + ": private key does not match public key"},
		{keyFile, certFile, "certificate " + keyFile + " with key " + certFile + `: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched`},
		{large, keyFile, large + " is larger than 1048576 bytes"},
	} {
		if _, err := Load(test.cert, test.key); err == nil || err.Error() != test.want {
			t.Errorf("Load(%s, %s): %v, want %s", test.cert, test.key, err, test.want)
		}
	}
	if _, err := LoadPool(keyFile); err == nil || err.Error() != keyFile+" holds no PEM certificate" {
		t.Errorf("LoadPool of a key: %v", err)
	}
	if _, err := LoadPool(absent); err == nil {
		t.Error("LoadPool of no file: no error")
	}
}

func TestStoreChoosesByName(t *testing.T) {
	first := selfSigned(t, "first.example")
	exact := selfSigned(t, "a.wild.example")
	wild := selfSigned(t, "*.wild.example", "wild.example")
	s, err := NewStore([]*tls.Certificate{first, wild, exact})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]*tls.Certificate{
		"":                       first,
		"unknown.example":        first,
		"first.example":          first,
		"FIRST.example":          first,
		"a.wild.example":         exact,
		"b.wild.example":         wild,
		"B.Wild.Example":         wild,
		"wild.example":           wild,
		"x.b.wild.example":       first, // a wildcard stands for one label
		"*.wild.example":         wild,
		".wild.example":          wild,
		"example":                first,
		strings.Repeat(".", 300): first,
	} {
		got, err := s.Certificate(&tls.ClientHelloInfo{ServerName: name})
		if err != nil || got != want {
			t.Errorf("%q: got the certificate for %v, want %v (%v)", name, got.Leaf.DNSNames, want.Leaf.DNSNames, err)
		}
	}
}

// TestStoreChoosesByKey has an RSA and an ECDSA certificate for one name: each
// client gets the one that it can verify, and the earlier if it can do both.
func TestStoreChoosesByKey(t *testing.T) {
	ec := selfSigned(t, "both.example")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "both.example"},
		DNSNames: []string{"both.example"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	rsaCert := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}

	hello := func(name string, schemes ...tls.SignatureScheme) *tls.ClientHelloInfo {
		return &tls.ClientHelloInfo{
			ServerName:        name,
			SupportedVersions: []uint16{tls.VersionTLS13},
			CipherSuites:      []uint16{tls.TLS_AES_128_GCM_SHA256},
			SignatureSchemes:  schemes,
			SupportedCurves:   []tls.CurveID{tls.X25519, tls.CurveP256},
		}
	}
	for _, order := range [][]*tls.Certificate{{ec, rsaCert}, {rsaCert, ec}} {
		s, err := NewStore(order)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"both.example", "", "unknown.example"} {
			for _, test := range []struct {
				hello *tls.ClientHelloInfo
				want  *tls.Certificate
			}{
				{hello(name, tls.ECDSAWithP256AndSHA256), ec},
				{hello(name, tls.PSSWithSHA256), rsaCert},
				{hello(name, tls.PSSWithSHA256, tls.ECDSAWithP256AndSHA256), order[0]},
				{hello(name, tls.Ed25519), order[0]},
			} {
				if got, err := s.Certificate(test.hello); err != nil || got != test.want {
					t.Errorf("%q with %v: not the certificate wanted (%v)", name, test.hello.SignatureSchemes, err)
				}
			}
		}
	}
}

func TestStoreErrors(t *testing.T) {
	if _, err := NewStore(nil); err == nil || err.Error() != "certificates: none given" {
		t.Errorf("no certificate: %v", err)
	}
	if _, err := NewStore([]*tls.Certificate{{}}); err == nil {
		t.Error("a certificate without leaf: no error")
	}
}
