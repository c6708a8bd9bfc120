package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// begin runs a command until the test ends and returns the address that it says.
func begin(t *testing.T, run func(context.Context, io.Writer) error) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, out) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
}

// TestProxy: a request reaches the backend, with the certificate that was made, over
// HTTP/1.1 and HTTP/2, and both programs end when they are told to.
func TestProxy(t *testing.T) {
	dir := t.TempDir()
	if err := (&certificatesCommand{Dir: dir}).Run(); err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)

	backend := begin(t, (&backendCommand{Listen: "127.0.0.1:0"}).Run)
	front := begin(t, (&serveCommand{Listen: "127.0.0.1:0", Cert: filepath.Join(dir, "server.pem"), Key: filepath.Join(dir, "server-key.pem"),
		Backend: &url.URL{Scheme: "http", Host: backend}}).Run)
	for _, http2 := range []bool{false, true} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"}, ForceAttemptHTTP2: http2}
		response, err := (&http.Client{Transport: transport}).Get("https://" + front + "/")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		transport.CloseIdleConnections()
		if err != nil || string(body) != "hello from the backend\n" || (response.ProtoMajor == 2) != http2 {
			t.Errorf("%s %q, %v", response.Proto, body, err)
		}
	}
}

// TestErrors: what cannot be listened on, or read, is said.
func TestErrors(t *testing.T) {
	if err := (&backendCommand{Listen: "127.0.0.1:no"}).Run(context.Background(), io.Discard); err == nil {
		t.Error("a port that is none was listened on")
	}
	serve := &serveCommand{Listen: "127.0.0.1:0", Cert: "/no/such/file", Key: "/no/such/file", Backend: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}}
	if err := serve.Run(context.Background(), io.Discard); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("without a certificate: %v", err)
	}
}
