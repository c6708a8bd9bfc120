package proxy

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

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/machine"
)

// BenchmarkHandshake makes full handshakes with a Server and with net/http's own, client
// included: what the one takes longer, and allocates more, is what the proxy adds. With
// a request each of them has a backend behind it.
func BenchmarkHandshake(b *testing.B) {
	cert, err := certificates.SelfSigned(hosts...)
	if err != nil {
		b.Fatal(err)
	}
	back := httptest.NewServer(http.HandlerFunc(hello))
	defer back.Close()
	for _, requests := range []int{0, 1, 20} {
		name := map[int]string{0: "Alone", 1: "Request", 20: "Requests"}[requests]
		for _, server := range []struct {
			name  string
			start func(b *testing.B, ln net.Listener, cert *tls.Certificate, back *url.URL)
		}{{"NetHTTP", startNetHTTP}, {"Server", startServer}} {
			b.Run(name+"/"+server.name, func(b *testing.B) {
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				to, err := url.Parse(back.URL)
				if err != nil {
					b.Fatal(err)
				}
				server.start(b, ln, cert, to)
				roots := x509.NewCertPool()
				roots.AddCert(cert.Leaf)
				client := &tls.Config{RootCAs: roots, ServerName: hosts[0], CurvePreferences: []tls.CurveID{tls.X25519}}
				b.ReportAllocs()
				before := processorTime(b)
				for b.Loop() {
					converse(b, ln.Addr().String(), client, requests)
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

// startNetHTTP starts what the Server is compared with.
func startNetHTTP(b *testing.B, ln net.Listener, cert *tls.Certificate, back *url.URL) {
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
}

func startServer(b *testing.B, ln net.Listener, cert *tls.Certificate, back *url.URL) {
	store, err := certificates.NewStore([]*tls.Certificate{cert})
	if err != nil {
		b.Fatal(err)
	}
	c := config.Default()
	pool, err := backend.New(backend.Options{URLs: []*url.URL{back}, EjectAfter: c.Backends.EjectAfter, MaxIdleConnections: c.Backends.MaxIdleConnections,
		ConnectTimeout: time.Duration(c.Timeouts.BackendConnect), WriteTimeout: time.Duration(c.Timeouts.BackendWrite), ResponseTimeout: time.Duration(c.Timeouts.BackendResponse),
		ReadTimeout: time.Duration(c.Timeouts.BackendRead), IdleTimeout: time.Duration(c.Timeouts.BackendIdle), MaxHeaderBytes: int64(c.Limits.HeaderBytes)})
	if err != nil {
		b.Fatal(err)
	}
	s := New(Options{Config: c, Certificates: store, Backends: pool, Logger: slog.New(slog.DiscardHandler)})
	var serving sync.WaitGroup
	serving.Go(func() { s.Serve(ln) })
	b.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Shutdown(ctx)
		serving.Wait()
		pool.Close()
	})
}
