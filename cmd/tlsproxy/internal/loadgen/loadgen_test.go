package loadgen

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
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

// target is a server that takes X25519 only, and the task that fits it.
func target(t *testing.T, handler http.HandlerFunc, change func(*tls.Config)) Task {
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
	return Task{Kind: Handshakes, Address: ln.Addr().String(), ServerName: "load.example", Certificate: cert.Certificate[0],
		Group: tls.X25519, Concurrency: 3, Duration: 20 * time.Millisecond}
}

// serve does tasks and returns their results.
func serve(t *testing.T, tasks ...Task) []Result {
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
	var results []Result
	for lines := json.NewDecoder(&out); lines.More(); {
		var r Result
		if err := lines.Decode(&r); err != nil {
			t.Fatal(err)
		}
		results = append(results, r)
	}
	if len(results) != len(tasks) {
		t.Fatalf("%d results of %d tasks", len(results), len(tasks))
	}
	return results
}

func TestKinds(t *testing.T) {
	var requests atomic.Int64
	task := target(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		io.WriteString(w, "hello")
	}, nil)
	with, http1, http2 := task, task, task
	with.Kind, http1.Kind, http2.Kind = Requests, ProbeHTTP1, ProbeHTTP2
	r := serve(t, task, with, http1, http2)
	for i, r := range r[:2] {
		if r.Completed == 0 || r.Failed != 0 || r.Errors != nil || r.Elapsed < task.Duration || r.CPU <= 0 || r.P50 <= 0 || r.P50 > r.P90 || r.P90 > r.P99 {
			t.Errorf("task %d: %+v", i, r)
		}
	}
	if r[2].Proto != "HTTP/1.1" || r[3].Proto != "HTTP/2.0" {
		t.Errorf("probes: %+v %+v", r[2], r[3])
	}
	for _, probe := range r[2:] {
		if probe.Completed != 1 || probe.Status != 200 || probe.Body != "hello" {
			t.Errorf("probe: %+v", probe)
		}
	}
	if n := requests.Load(); n != int64(r[1].Completed)+2 {
		t.Errorf("the server saw %d requests of %d and 2 probes", n, r[1].Completed)
	}
}

// TestFailures: whatever is not the handshake that was asked for counts as a
// failure and says why.
func TestFailures(t *testing.T) {
	other, err := certificates.SelfSigned("load.example")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		change func(*tls.Config)
		task   func(*Task)
		want   string
	}{
		{"no common group", nil, func(task *Task) { task.Group = tls.CurveP521 }, "handshake failure"},
		{"old version", func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, func(*Task) {}, "protocol version"},
		{"other certificate", nil, func(task *Task) { task.Certificate = other.Certificate[0] }, "certificate"},
		{"other name", nil, func(task *Task) { task.ServerName = "other.example" }, "certificate is valid for load.example"},
		{"error status", nil, func(task *Task) { task.Kind = Requests }, "answered 500 Internal Server Error"},
		{"nobody there", nil, func(task *Task) { task.Address = "127.0.0.1:1" }, "connection refused"},
		{"probe", nil, func(task *Task) { task.Kind, task.Group = ProbeHTTP2, tls.CurveP521 }, "handshake failure"},
	} {
		t.Run(test.name, func(t *testing.T) {
			task := target(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) }, test.change)
			task.Duration = time.Millisecond
			test.task(&task)
			r := serve(t, task)[0]
			if r.Failed == 0 || r.Completed != 0 || len(r.Errors) == 0 || !strings.Contains(r.Errors[0], test.want) {
				t.Errorf("%+v, want %s", r, test.want)
			}
		})
	}
}

func TestBadTasks(t *testing.T) {
	good, err := json.Marshal(target(t, nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	change := func(key string, value any) string {
		task := map[string]any{}
		if err := json.Unmarshal(good, &task); err != nil {
			t.Fatal(err)
		}
		task[key] = value
		text, err := json.Marshal(task)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for in, want := range map[string]string{
		"what?":                       "loadgen: reading a task: ",
		change("concurrency", 0):      "loadgen: concurrency 0 ",
		change("concurrency", 4097):   "loadgen: concurrency 4097 ",
		change("duration", -1):        "is out of range",
		change("certificate", "AAAA"): "loadgen: the certificate to trust: ",
	} {
		if err := Serve(context.Background(), strings.NewReader(in), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}

func TestPercentile(t *testing.T) {
	var hundred []time.Duration
	for n := range 100 {
		hundred = append(hundred, time.Duration(n+1))
	}
	for _, test := range []struct {
		values []time.Duration
		p      int
		want   time.Duration
	}{
		{nil, 50, 0}, {hundred[:1], 50, 1}, {hundred[:1], 99, 1}, {hundred, 50, 50}, {hundred, 90, 90}, {hundred, 99, 99},
		{hundred[:2], 50, 1}, {hundred[:3], 50, 2}, {hundred[:10], 99, 10},
	} {
		if got := percentile(test.values, test.p); got != test.want {
			t.Errorf("p%d of %d values: %d, want %d", test.p, len(test.values), got, test.want)
		}
	}
}
