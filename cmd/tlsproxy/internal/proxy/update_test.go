package proxy

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/routing"
)

// TestUpdate changes backends, certificate and policy under an open connection:
// it stays, its next request goes to the new backend, and a new connection gets
// the new certificate and policy. A request under way ends at the old backend.
func TestUpdate(t *testing.T) {
	forBoth(t, func(t *testing.T, http2 bool) {
		release := make(chan struct{})
		let := sync.OnceFunc(func() { close(release) })
		t.Cleanup(let)
		r := newRig(t, nil, func(w http.ResponseWriter, req *http.Request) {
			io.WriteString(w, "old ")
			http.NewResponseController(w).Flush()
			if req.URL.Path == "/slow" {
				<-release
			}
			io.WriteString(w, "backend")
		})
		client := r.client(http2)
		slow := make(chan string, 1)
		get := func() {
			response, err := client.Get("https://front.example/slow")
			if err != nil {
				slow <- err.Error()
				return
			}
			defer response.Body.Close()
			body, _ := io.ReadAll(response.Body)
			slow <- string(body)
		}
		if _, body := r.get(client, "/"); body != "old backend" {
			t.Fatal(body)
		}
		first := handshakes(r.server)
		go get()
		r.waitForRequest()

		next := r.replacement(func(c *config.Config) { c.TLS.MinVersion = config.Version(tls.VersionTLS13) })
		r.server.Update(next)
		if _, body := r.get(client, "/"); body != "new backend" {
			t.Errorf("after the update: %q", body)
		}
		let()
		if body := <-slow; body != "old backend" {
			t.Errorf("the request under way: %q", body)
		}
		if opened := handshakes(r.server); http2 && opened != first {
			t.Errorf("%d connections instead of %d", opened, first)
		}

		raw, err := r.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		old := tls.Client(raw, &tls.Config{ServerName: "front.example", InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
		if err := old.Handshake(); err == nil {
			t.Error("TLS 1.2 is still served")
		}
		raw, err = r.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		c := tls.Client(raw, &tls.Config{ServerName: "front.example", InsecureSkipVerify: true})
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		if names := c.ConnectionState().PeerCertificates[0].DNSNames; len(names) != 2 || names[1] != "new.example" {
			t.Errorf("the new connection's certificate is for %v", names)
		}
	})
}

func handshakes(s *Server) (all uint64) {
	for _, n := range s.Stats().Handshakes {
		all += n
	}
	return all
}

// waitForRequest returns once a request is under way.
func (r *rig) waitForRequest() {
	for {
		r.server.mu.Lock()
		n := r.server.requests
		r.server.mu.Unlock()
		if n > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// replacement is what Update can be given: a new backend and certificate.
func (r *rig) replacement(change func(*config.Config)) Options {
	t := r.t
	t.Helper()
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "new backend") }))
	t.Cleanup(b.Close)
	u, err := url.Parse(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := backend.New(backend.Options{URLs: []*url.URL{u}, EjectAfter: 3, EjectFor: time.Second, MaxIdleConnections: 1, ConnectTimeout: time.Minute, Logger: slog.New(r.log)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	cert, err := certificates.SelfSigned("front.example", "new.example")
	if err != nil {
		t.Fatal(err)
	}
	r.roots.AddCert(cert.Leaf)
	store, err := certificates.NewStore([]*tls.Certificate{cert})
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	change(c)
	table, err := routing.New(c, map[string]*backend.Pool{config.DefaultPool: pool})
	if err != nil {
		t.Fatal(err)
	}
	return Options{Config: c, Certificates: store, Hosts: table, Logger: slog.New(r.log)}
}
