package provider

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"
)

// serverConfig returns a server's configuration whose certificate's key is a
// Signer, and the authority to verify it by.
func serverConfig(t *testing.T, s *Signer) (*tls.Config, *x509.CertPool) {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "signer.example"}, DNSNames: []string{"signer.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, s.Public(), s) // signed by the Signer too
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &tls.Config{SessionTicketsDisabled: true, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: s, Leaf: leaf}}}, pool
}

// handshake runs one over a pipe, and an echo.
func handshake(t *testing.T, server, client *tls.Config) {
	t.Helper()
	near, far := net.Pipe()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer near.Close()
	wg.Go(func() {
		defer far.Close()
		conn := tls.Server(far, server)
		if err := conn.HandshakeContext(context.Background()); err != nil {
			t.Error(err)
			return
		}
		if _, err := io.CopyN(conn, conn, 4); err != nil {
			t.Error(err)
		}
	})
	conn := tls.Client(near, client)
	if err := conn.HandshakeContext(context.Background()); err != nil {
		t.Error(err)
		return
	}
	echo := make([]byte, 4)
	if _, err := conn.Write([]byte("ping")); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(conn, echo); err != nil || string(echo) != "ping" {
		t.Errorf("%q, %v", echo, err)
	}
}

// handshakes runs n at once, half of them of TLS 1.2.
func handshakes(t *testing.T, server *tls.Config, pool *x509.CertPool, n int) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		client := &tls.Config{RootCAs: pool, ServerName: "signer.example", CurvePreferences: []tls.CurveID{tls.CurveP256}}
		if i%2 == 1 {
			client.MaxVersion = tls.VersionTLS12
		}
		wg.Go(func() { handshake(t, server, client) })
	}
	wg.Wait()
}

// A Signer is a certificate's key for crypto/tls.
func TestSignerHandshakes(t *testing.T) {
	p := openTest(t, Config{KeyPoolSize: -1})
	server, pool := serverConfig(t, newSigner(t, p, p256Key(t)))
	handshakes(t, server, pool, 8)
	if st := p.Stats().Signatures; st.Served != 9 {
		t.Errorf("%+v", st)
	}
}
