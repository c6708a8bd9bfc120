//go:build programs

package interop

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"
)

// stapled writes a certificate for name, its key and an OCSP response for it, all
// by an authority of their own, and returns the files of the first two and of the
// authority.
func stapled(t *testing.T, name string) (cert, key, authority string) {
	t.Helper()
	issue := func(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if signer == nil {
			parent, signer = template, key
		}
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
		if err != nil {
			t.Fatal(err)
		}
		made, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return made, key
	}
	ca, caKey := issue(&x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "stapling authority"}, IsCA: true, BasicConstraintsValid: true}, nil, nil)
	leaf, leafKey := issue(&x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{name}}, ca, caKey)
	response, err := ocsp.CreateResponse(ca, ca, ocsp.Response{Status: ocsp.Good, SerialNumber: leaf.SerialNumber,
		ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(time.Hour)}, caKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key, authority = filepath.Join(dir, "leaf.pem"), filepath.Join(dir, "leaf.key"), filepath.Join(dir, "ca.pem")
	caPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})
	for file, data := range map[string][]byte{
		cert:           append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw}), caPEM...),
		key:            pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
		authority:      caPEM,
		cert + ".ocsp": response,
	} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key, authority
}

// TestOpenSSLPolicies has openssl see the certificate and the OCSP response of one
// host, the demand for a post-quantum group of another, and sessions that stay with
// their host and take no early data.
func TestOpenSSLPolicies(t *testing.T) {
	cert, key, authority := stapled(t, "stapled.example")
	e := startProxy(t, proxyOptions{groups: []string{mlkem, x25519}, extra: fmt.Sprintf("hosts:\n"+
		"  - {names: [stapled.example], certificates: [{cert: %q, key: %q}]}\n"+
		"  - {names: [hybrid.example], tls: {require_hybrid: true}}\n"+
		"  - {names: [other.example]}\n", cert, key)})
	client := func(name string, more ...string) result {
		request := "GET /policy HTTP/1.1\r\nHost: " + name + "\r\nConnection: close\r\n\r\n"
		return run(t, request, installed(t, "openssl"), append([]string{"s_client", "-connect", e.address, "-servername", name, "-ign_eof"}, more...)...)
	}
	want := func(what string, r result, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(r.stdout+r.stderr, text) {
				t.Errorf("%s: no %q, exit %d: %s%s", what, text, r.status, r.stdout, r.stderr)
			}
		}
	}
	want("OCSP response", client("stapled.example", "-status", "-CAfile", authority, "-verify_return_error"),
		"OCSP Response Status: successful", "Cert Status: good", "Verify return code: 0 (ok)", "/policy")
	want("another host", client("other.example", "-status"), "OCSP response: no response sent")
	want("no post-quantum group", client("hybrid.example"), "alert insufficient security")

	session := filepath.Join(t.TempDir(), "session.pem")
	early := filepath.Join(t.TempDir(), "early")
	if err := os.WriteFile(early, []byte("GET /early HTTP/1.1\r\nHost: other.example\r\n\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"-tls1_2", "-tls1_3"} {
		want("first "+version, client("other.example", version, "-sess_out", session), "New, TLSv1", "/policy")
		want("again "+version, client("other.example", version, "-sess_in", session), "Reused, TLSv1", "/policy")
		want("elsewhere "+version, client("localhost", version, "-sess_in", session), "New, TLSv1", "/policy")
	}
	r := client("other.example", "-tls1_3", "-sess_in", session, "-early_data", early)
	want("early data", r, "Reused, TLSv1.3", "Max Early Data: 0", "Early data was not sent", "/policy")
	if strings.Contains(r.stdout, "/early") {
		t.Error("early data was taken")
	}
	e.lives(mlkem)
}
