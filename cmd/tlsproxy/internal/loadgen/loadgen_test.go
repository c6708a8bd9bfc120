package loadgen

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startServer starts a server that takes X25519 only, and the load that fits it.
func startServer(t *testing.T, handler http.HandlerFunc, change func(*tls.Config)) Load {
	t.Helper()
	cert, err := certificates.SelfSigned("load.example")
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{*cert}, CurvePreferences: []tls.CurveID{tls.X25519}, NextProtos: []string{"h2", "http/1.1"}}
	if change != nil {
		change(config)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, TLSConfig: config, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go server.ServeTLS(ln, "", "")
	t.Cleanup(func() { server.Close() })
	return Load{Addresses: []string{ln.Addr().String()}, ServerName: "load.example", Certificate: cert.Certificate[0], Group: tls.X25519, Concurrency: 3}
}

// short is a span in which every worker has its turn.
var short = Span{Duration: 20 * time.Millisecond}

func run(t *testing.T, l Load, s Span) *Result {
	t.Helper()
	c, err := New(l)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Prepare(context.Background()); err != nil {
		t.Fatal(err)
	}
	r, err := c.Run(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func ordered(l Latency) bool { return 0 < l.P50 && l.P50 <= l.P90 && l.P90 <= l.P99 && l.P99 <= l.Max }

func TestHandshakes(t *testing.T) {
	r := run(t, startServer(t, nil, nil), short)
	if r.Completed < 3 || r.Requests != 0 || r.Failed != 0 || r.Errors != nil || r.Failures != nil || r.Elapsed < short.Duration || r.CPU <= 0 ||
		!ordered(r.Handshake) || r.Request != (Latency{}) {
		t.Errorf("%+v", r)
	}
}

// TestRequests: the server sees each request, and each connection's are one after
// another on it.
func TestRequests(t *testing.T) {
	var requests, connections atomic.Int64
	l := startServer(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.RequestURI != "/a%20b?c" || r.Host != "load.example" {
			w.WriteHeader(http.StatusNotFound)
		}
		io.WriteString(w, "hello")
	}, func(c *tls.Config) {
		c.VerifyConnection = func(tls.ConnectionState) error { connections.Add(1); return nil }
	})
	l.Requests, l.Path = 4, "/a%20b?c"
	r := run(t, l, Span{Count: 5})
	if r.Completed != 5 || r.Requests != 20 || r.Failed != 0 || !ordered(r.Request) || requests.Load() != 20 || connections.Load() != 5 {
		t.Errorf("%+v; the server saw %d requests of %d connections", r, requests.Load(), connections.Load())
	}
}

// TestResume: the handshakes are resumed, on each of the addresses.
func TestResume(t *testing.T) {
	var resumed, full atomic.Int64
	count := func(c *tls.Config) {
		c.VerifyConnection = func(s tls.ConnectionState) error {
			if s.DidResume {
				resumed.Add(1)
			} else {
				full.Add(1)
			}
			return nil
		}
	}
	l := startServer(t, nil, count)
	l.Insecure = true // the other server has another certificate
	l.Addresses = append(l.Addresses, startServer(t, nil, count).Addresses...)
	l.Resume = true
	r := run(t, l, Span{Count: 10})
	for resumed.Load()+full.Load() < 12 { // a server looks at the connection once its flight is out
		time.Sleep(time.Millisecond)
	}
	if r.Completed != 10 || r.Failed != 0 || resumed.Load() != 10 || full.Load() != 2 {
		t.Errorf("%+v; %d resumed, %d full", r, resumed.Load(), full.Load())
	}
}

func TestNoTicket(t *testing.T) {
	cert, err := certificates.SelfSigned("load.example")
	if err != nil {
		t.Fatal(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{*cert}, SessionTicketsDisabled: true})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for conn, err := ln.Accept(); err == nil; conn, err = ln.Accept() {
			conn.(*tls.Conn).Handshake()
			conn.Close()
		}
	}()
	l := Load{Addresses: []string{ln.Addr().String()}, Insecure: true, Group: tls.X25519, Concurrency: 1, Resume: true}
	c, err := New(l)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Prepare(context.Background()); err == nil || !strings.Contains(err.Error(), ": the server sent no session ticket: EOF") {
		t.Errorf("Prepare: %v", err)
	}
	// A server that took the sessions once and does no longer.
	l = startServer(t, nil, func(c *tls.Config) {
		var begun atomic.Bool
		without := c.Clone()
		without.SessionTicketsDisabled = true
		c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
			if begun.Swap(true) {
				return without, nil
			}
			return nil, nil
		}
	})
	l.Resume = true
	if r := run(t, l, Span{Count: 2}); r.Failed != 2 || r.Failures["not resumed"] != 2 {
		t.Errorf("%+v", r)
	}
}

// TestRate: connections begin when they are due and no sooner, and a wait for a free
// worker counts as latency.
func TestRate(t *testing.T) {
	l := startServer(t, nil, nil)
	l.Rate = 500
	if r := run(t, l, Span{Count: 11}); r.Completed != 11 || r.Elapsed < 20*time.Millisecond {
		t.Errorf("%+v", r)
	}
	if r := run(t, l, Span{Duration: 10 * time.Millisecond}); r.Completed != 5 {
		t.Errorf("%+v", r)
	}
	slow := startServer(t, nil, func(c *tls.Config) {
		c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
			time.Sleep(5 * time.Millisecond)
			return nil, nil
		}
	})
	slow.Rate, slow.Concurrency = 1e6, 1
	if r := run(t, slow, Span{Count: 4}); r.Completed != 4 || r.Handshake.Max < 20*time.Millisecond {
		t.Errorf("%+v", r)
	}
}

// TestInterrupted: what was done counts, and what was cut off does not.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var n atomic.Int64
	l := startServer(t, func(http.ResponseWriter, *http.Request) {
		if n.Add(1) == 3 {
			cancel()
		}
	}, nil)
	l.Concurrency, l.Requests = 1, MaxRequests
	c, err := New(l)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Run(ctx, Span{Duration: time.Hour})
	if err != nil || r.Completed != 1 || r.Requests < 2 || r.Failed != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestSources connects from the addresses that are given, in turn.
func TestSources(t *testing.T) {
	var first, second atomic.Int64
	l := startServer(t, nil, func(c *tls.Config) {
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			switch host, _, _ := net.SplitHostPort(hello.Conn.RemoteAddr().String()); host {
			case "127.0.0.2":
				first.Add(1)
			case "127.0.0.3":
				second.Add(1)
			}
			return nil, nil
		}
	})
	l.Sources = []string{"127.0.0.2", "127.0.0.3"}
	if r := run(t, l, Span{Count: 6}); r.Completed != 6 || first.Load() != 3 || second.Load() != 3 {
		t.Errorf("%+v, %d and %d", r, first.Load(), second.Load())
	}
}

// TestFailures: whatever is not the handshake that was asked for counts as a failure,
// by what it failed of.
func TestFailures(t *testing.T) {
	other, err := certificates.SelfSigned("load.example")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		change func(*tls.Config)
		load   func(*Load)
		cause  string
		want   string
	}{
		{"no common group", nil, func(l *Load) { l.Group = tls.CurveP521 }, "alert received: handshake failure", "handshake failure"},
		{"old version", func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, func(*Load) {}, "alert received: protocol version not supported", "protocol version"},
		{"other certificate", nil, func(l *Load) { l.Certificate = other.Certificate[0] }, causeCertificate, "certificate"},
		{"other name", nil, func(l *Load) { l.ServerName = "other.example" }, causeCertificate, "certificate is valid for load.example"},
		{"error status", nil, func(l *Load) { l.Requests = 1 }, "answered with status 500", "answered with status 500"},
		{"nobody there", nil, func(l *Load) { l.Addresses[0] = "127.0.0.1:1" }, causeRefused, "connection refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := startServer(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) }, test.change)
			test.load(&l)
			r := run(t, l, Span{Count: 3})
			if r.Failed != 3 || r.Requests != 0 || r.Failures[test.cause] != 3 || len(r.Errors) == 0 || !strings.Contains(r.Errors[0], test.want) {
				t.Errorf("%+v, want %s: %s", r, test.cause, test.want)
			}
		})
	}
}

// TestTrust: the authorities are honoured, and without a word the system's are.
func TestTrust(t *testing.T) {
	l := startServer(t, nil, nil)
	authorities := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.Certificate})
	for _, test := range []struct {
		certificate, authorities []byte
		insecure                 bool
		failed                   int
	}{
		{nil, authorities, false, 0}, {nil, nil, true, 0}, {nil, nil, false, 1},
	} {
		l.Certificate, l.Authorities, l.Insecure = test.certificate, test.authorities, test.insecure
		if r := run(t, l, Span{Count: 1}); r.Failed != test.failed {
			t.Errorf("%+v: %+v", test, r)
		}
	}
}

func TestBounds(t *testing.T) {
	good := Load{Addresses: []string{"a:1"}, ServerName: "a", Group: tls.X25519, Concurrency: 1}
	for want, change := range map[string]func(*Load){
		"loadgen: 0 addresses":                    func(l *Load) { l.Addresses = nil },
		"loadgen: the address \"a\" is not ":      func(l *Load) { l.Addresses = []string{"a"} },
		"loadgen: no server name to verify":       func(l *Load) { l.ServerName = "" },
		"loadgen: 0 connections at once":          func(l *Load) { l.Concurrency = 0 },
		"loadgen: 16385 connections at once":      func(l *Load) { l.Concurrency = 16385 },
		"loadgen: a rate of -1":                   func(l *Load) { l.Rate = -1 },
		"loadgen: a rate of NaN":                  func(l *Load) { l.Rate = math.NaN() },
		"loadgen: -1 requests":                    func(l *Load) { l.Requests = -1 },
		"loadgen: the path \"a\" ":                func(l *Load) { l.Path = "a" },
		"loadgen: the path \"/ \\r\\nX: y\" ":     func(l *Load) { l.Path = "/ \r\nX: y" },
		"loadgen: the source \"x\" is not an IP":  func(l *Load) { l.Sources = []string{"x"} },
		"loadgen: 257 source addresses":           func(l *Load) { l.Sources = make([]string, 257) },
		"loadgen: the certificate to trust: ":     func(l *Load) { l.Certificate = []byte{0} },
		"loadgen: the authorities to trust hold ": func(l *Load) { l.Authorities = []byte{0} },
	} {
		l := good
		change(&l)
		if _, err := New(l); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	c, err := New(good)
	if err != nil {
		t.Fatal(err)
	}
	for want, s := range map[string]Span{
		"loadgen: a duration of -1ns": {Duration: -1}, "loadgen: a duration of 48h": {Duration: 48 * time.Hour}, "loadgen: a count of -1": {Count: -1},
	} {
		if _, err := c.Run(context.Background(), s); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestCausesAreBounded: a server cannot make the report grow.
func TestCausesAreBounded(t *testing.T) {
	r := newRecorder()
	for n := range 1000 {
		r.failed(context.Background(), unexpected(strings.Repeat("x", n)))
	}
	got := r.result()
	if got.Failed != 1000 || len(got.Failures) != maxCauses+1 || got.Failures[causeOther] != 1000-maxCauses || len(got.Errors) != maxErrors {
		t.Errorf("%d failed, %d causes, other: %d, errors: %d", got.Failed, len(got.Failures), got.Failures[causeOther], len(got.Errors))
	}
}

// serve does tasks and returns their outcomes.
func serve(t *testing.T, tasks ...Task) []Outcome {
	t.Helper()
	var in, out bytes.Buffer
	for _, task := range tasks {
		if err := json.NewEncoder(&in).Encode(task); err != nil {
			t.Fatal(err)
		}
	}
	if err := Serve(context.Background(), &in, &out); err != nil {
		t.Fatal(err)
	}
	var outcomes []Outcome
	for lines := json.NewDecoder(&out); lines.More(); {
		var o Outcome
		if err := lines.Decode(&o); err != nil {
			t.Fatal(err)
		}
		outcomes = append(outcomes, o)
	}
	if len(outcomes) != len(tasks) {
		t.Fatalf("%d outcomes of %d tasks", len(outcomes), len(tasks))
	}
	return outcomes
}

func TestServe(t *testing.T) {
	l := startServer(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }, nil)
	wrong := l
	wrong.Group = tls.CurveP521
	o := serve(t, Task{Load: l, Span: Span{Count: 3}}, Task{Load: l, Probe: "HTTP/1.1"}, Task{Load: l, Probe: "HTTP/2.0"}, Task{Load: wrong, Probe: "HTTP/2.0"})
	if o[0].Completed != 3 || o[0].Answer != nil {
		t.Errorf("%+v", o[0])
	}
	for i, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		if a := o[1+i].Answer; a == nil || *a != (Answer{proto, 200, "hello"}) || o[1+i].Completed != 1 {
			t.Errorf("%+v", o[1+i])
		}
	}
	if o[3].Answer != nil || o[3].Failed != 1 || o[3].Failures["alert received: handshake failure"] != 1 {
		t.Errorf("%+v", o[3])
	}
	for in, want := range map[string]string{
		"what?":                 "loadgen: reading a task: ",
		"{}":                    "loadgen: 0 addresses",
		`{"load": {"rate":""}}`: "loadgen: reading a task: ",
	} {
		if err := Serve(context.Background(), strings.NewReader(in), io.Discard); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}
