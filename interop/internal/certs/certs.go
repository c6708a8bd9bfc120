package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Names in the certificates.
const (
	ServerName = "localhost"      // of the server, beside 127.0.0.1 and ::1
	ServerCN   = "interop server" // common names
	ClientCN   = "interop client"
)

// Files names PEM files: a certificate chain and its key for either side, the
// authority that signed both, and a second authority that signed neither.
type Files struct {
	CA, OtherCA           string
	ServerCert, ServerKey string
	ClientCert, ClientKey string
}

// authority is a certificate and the key that signs with it.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// Write makes new certificates, ECDSA P-256 and valid for 30 days, in dir.
func Write(dir string) (*Files, error) {
	f := &Files{
		CA:         filepath.Join(dir, "ca.pem"),
		OtherCA:    filepath.Join(dir, "other-ca.pem"),
		ServerCert: filepath.Join(dir, "server.pem"),
		ServerKey:  filepath.Join(dir, "server-key.pem"),
		ClientCert: filepath.Join(dir, "client.pem"),
		ClientKey:  filepath.Join(dir, "client-key.pem"),
	}
	ca, err := issueAuthority("interop CA", f.CA)
	if err != nil {
		return nil, err
	}
	if _, err := issueAuthority("other CA", f.OtherCA); err != nil {
		return nil, err
	}
	server := template(ServerCN, x509.ExtKeyUsageServerAuth)
	server.DNSNames = []string{ServerName}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	if err := ca.issue(server, f.ServerCert, f.ServerKey); err != nil {
		return nil, err
	}
	if err := ca.issue(template(ClientCN, x509.ExtKeyUsageClientAuth), f.ClientCert, f.ClientKey); err != nil {
		return nil, err
	}
	return f, nil
}

func template(name string, usage ...x509.ExtKeyUsage) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(30 * 24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  usage,
	}
}

func issueAuthority(name, file string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := template(name)
	t.KeyUsage = x509.KeyUsageCertSign
	t.IsCA, t.BasicConstraintsValid = true, true
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	return &authority{t, key}, writePEM(file, "CERTIFICATE", der)
}

func (a *authority) issue(t *x509.Certificate, certFile, keyFile string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("certs: %w", err)
	}
	if err := writePEM(certFile, "CERTIFICATE", der); err != nil {
		return err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("certs: %w", err)
	}
	return writePEM(keyFile, "PRIVATE KEY", pkcs8)
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
