package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/machine"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/routing"
)

// BenchmarkRequest reports the processor time that a request through the proxy
// takes of the whole process, client and backend included, as a ratio to one
// through httputil.ReverseProxy alone, for small answers and for answers of 1 MiB.
// Rounds of both take turns.
func BenchmarkRequest(b *testing.B) {
	for name, size := range map[string]int{"small": 5, "large": 1 << 20} {
		b.Run(name, func(b *testing.B) { benchmarkRequests(b, bytes.Repeat([]byte("x"), size), max(10, 500/(1+size>>10))) })
	}
}

func benchmarkRequests(b *testing.B, answer []byte, perRound int) {
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(answer) }))
	defer back.Close()
	target, err := url.Parse(back.URL)
	if err != nil {
		b.Fatal(err)
	}
	cert, err := certificates.SelfSigned(hosts...)
	if err != nil {
		b.Fatal(err)
	}
	for name, http2 := range map[string]bool{"HTTP1": false, "HTTP2": true} {
		b.Run(name, func(b *testing.B) {
			plain := client(b, plainProxy(b, target, cert), http2)
			ours := client(b, quietProxy(b, target, cert), http2)
			var cost [2]time.Duration
			b.ResetTimer()
			for b.Loop() {
				for i, c := range []*http.Client{plain, ours} {
					before := cpuTime(b)
					for range perRound {
						fetch(b, c, len(answer))
					}
					cost[i] += cpuTime(b) - before
				}
			}
			b.ReportMetric(float64(cost[1])/float64(cost[0]), "ratio")
			b.ReportMetric(float64(cost[1].Microseconds())/float64(b.N*perRound), "cpu-us/request")
		})
	}
}

// plainProxy is what a Go program without this one would do.
func plainProxy(b *testing.B, target *url.URL, cert *tls.Certificate) string {
	s := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.SetXForwarded()
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
	})
	s.TLS = &tls.Config{Certificates: []tls.Certificate{*cert}}
	s.EnableHTTP2 = true
	s.StartTLS()
	b.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// quietProxy is a Server that logs no requests.
func quietProxy(b *testing.B, target *url.URL, cert *tls.Certificate) string {
	logger := slog.New(slog.DiscardHandler)
	c := config.Default()
	store, err := certificates.NewStore([]*tls.Certificate{cert})
	if err != nil {
		b.Fatal(err)
	}
	pool, err := backend.New(backend.Options{URLs: []*url.URL{target}, EjectAfter: 3, EjectFor: time.Second, MaxIdleConnections: 256,
		ConnectTimeout: time.Minute, IdleTimeout: time.Minute, WriteTimeout: time.Minute, ReadTimeout: time.Minute, ResponseTimeout: time.Minute, Logger: logger})
	if err != nil {
		b.Fatal(err)
	}
	table, err := routing.New(c, map[string]*backend.Pool{config.DefaultPool: pool})
	if err != nil {
		b.Fatal(err)
	}
	s := New(Options{Config: c, Certificates: store, Hosts: table, Logger: logger})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go s.Serve(ln)
	b.Cleanup(func() {
		s.Shutdown(b.Context())
		pool.Close()
	})
	return ln.Addr().String()
}

func client(b *testing.B, address string, http2 bool) *http.Client {
	t := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableCompression: true, Protocols: new(http.Protocols),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}}
	t.Protocols.SetHTTP1(!http2)
	t.Protocols.SetHTTP2(http2)
	b.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

func fetch(b *testing.B, c *http.Client, size int) {
	response, err := c.Get("https://front.example/path")
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	if n, err := io.Copy(io.Discard, response.Body); n != int64(size) || err != nil {
		b.Fatalf("%d bytes, %v", n, err)
	}
}

func cpuTime(b *testing.B) time.Duration {
	used, err := machine.CPUTime()
	if err != nil {
		b.Fatal(err)
	}
	return used
}
