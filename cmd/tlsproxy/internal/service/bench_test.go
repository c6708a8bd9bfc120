package service

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/machine"
)

// BenchmarkHandshake makes full handshakes with the proxy and with net/http's own server, client
// included: what the one takes longer, and allocates more, is what the proxy adds. With
// a request each of them has a backend behind it.
func BenchmarkHandshake(b *testing.B) {
	cert, err := certificates.SelfSigned("front.example")
	if err != nil {
		b.Fatal(err)
	}
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }))
	defer back.Close()
	for _, requests := range []int{0, 1, 20} {
		name := map[int]string{0: "Alone", 1: "Request", 20: "Requests"}[requests]
		for _, server := range []struct {
			name  string
			start func(b *testing.B, cert *tls.Certificate, back *url.URL) (address string)
		}{{"NetHTTP", startNetHTTP}, {"Service", startService}} {
			b.Run(name+"/"+server.name, func(b *testing.B) {
				to, err := url.Parse(back.URL)
				if err != nil {
					b.Fatal(err)
				}
				address := server.start(b, cert, to)
				roots := x509.NewCertPool()
				roots.AddCert(cert.Leaf)
				client := &tls.Config{RootCAs: roots, ServerName: "front.example", CurvePreferences: []tls.CurveID{tls.X25519}}
				b.ReportAllocs()
				before := processorTime(b)
				for b.Loop() {
					converse(b, address, client, requests)
				}
				b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// processorTime is less at the mercy of what else the machine does than the clock is.
func processorTime(b *testing.B) time.Duration {
	used, err := machine.CPUTime()
	if err != nil {
		b.Fatal(err)
	}
	return used
}

// converse makes a connection with some requests, and waits until the server has closed
// its side too: what that costs belongs to the connection.
func converse(b *testing.B, address string, config *tls.Config, requests int) {
	raw, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	defer raw.Close()
	c := tls.Client(raw, config)
	if err := c.Handshake(); err != nil {
		b.Fatal(err)
	}
	buffer := make([]byte, 4096)
	for range requests {
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: front.example\r\n\r\n"); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Read(buffer); err != nil {
			b.Fatal(err)
		}
	}
	c.CloseWrite()
	raw.(*net.TCPConn).CloseWrite()
	io.Copy(io.Discard, raw)
}

// startNetHTTP starts what the proxy is compared with.
func startNetHTTP(b *testing.B, cert *tls.Certificate, back *url.URL) (address string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	server := &http.Server{TLSConfig: &tls.Config{Certificates: []tls.Certificate{*cert}}, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		Handler: &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(back)
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		}}}
	var serving sync.WaitGroup
	serving.Go(func() { server.ServeTLS(ln, "", "") })
	b.Cleanup(func() {
		server.Close()
		serving.Wait()
		transport.CloseIdleConnections()
	})
	return ln.Addr().String()
}

func startService(b *testing.B, cert *tls.Certificate, back *url.URL) (address string) {
	c := config.Default()
	c.Listen = []config.Listener{config.ListenOn("127.0.0.1:0")}
	c.TLS.Groups = []config.Group{config.Group(tls.X25519)}
	c.Backends.URLs = []config.URL{{URL: back}}
	plan, err := LoadWith(c, cert)
	if err != nil {
		b.Fatal(err)
	}
	s, err := plan.Start(slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx, nil) }()
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	return s.Addresses()[0].String()
}
