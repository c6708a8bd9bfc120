package comparison

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/loadgen"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/machine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRows checks medians, sums, and that ratios are taken round by round.
func TestRows(t *testing.T) {
	round := func(cpu time.Duration, n int) Sample {
		return Sample{ServerCPU: cpu * time.Duration(n), Result: loadgen.Result{Completed: n, Requests: 2 * n, Elapsed: time.Second, CPU: time.Duration(n),
			Handshake: loadgen.Latency{P50: cpu, P90: 2 * cpu, P99: 3 * cpu, Max: 4 * cpu}, Request: loadgen.Latency{P50: 5 * cpu}}}
	}
	failed := round(220, 10)
	failed.Failed, failed.Failures, failed.Errors, failed.Faults = 2, map[string]int{"timed out": 2}, []string{"a", "b"}, []string{"c"}
	again := round(600, 10)
	again.Failed, again.Failures, again.Errors = 1, map[string]int{"timed out": 1}, []string{"a"}
	unmeasured := round(0, 10)
	unmeasured.ServerCPU = NoServerCPU
	// The machine is three times slower in the last round: ratios do not see it.
	samples := [][]Sample{
		{round(200, 10), failed, again},
		{round(100, 40), round(100, 20), round(300, 30)},
		{unmeasured, unmeasured},
	}
	got := Rows([]Subject{{Name: "slow", Group: "P"}, {Name: "fast", Group: "X", Base: true}, {Name: "far", Group: "X"}}, 7, samples)
	want := []Row{
		{Name: "slow", Group: "P", Concurrency: 7, Rounds: 3, Completed: 30, Requests: 60, Failed: 3, Failures: map[string]int{"timed out": 3}, Errors: []string{"a", "b", "c"},
			PerSecond: 10, RequestsPerSecond: 20, Handshake: loadgen.Latency{P50: 220, P90: 440, P99: 660, Max: 2400}, Request: loadgen.Latency{P50: 1100},
			ServerCPU: 220, ClientCPU: 1, ServerCPUPerRequest: 110, ServerBusy: 2200e-9, ClientBusy: 10e-9, PerServerCore: 1e9 / 220,
			Ratios: []Ratio{{Base: "fast", ServerCPU: 2, ServerCPUPerRequest: 2, PerSecond: 1. / 3, P50: 2, P99: 2}}},
		{Name: "fast", Group: "X", Concurrency: 7, Rounds: 3, Completed: 90, Requests: 180,
			PerSecond: 30, RequestsPerSecond: 60, Handshake: loadgen.Latency{P50: 100, P90: 200, P99: 300, Max: 1200}, Request: loadgen.Latency{P50: 500},
			ServerCPU: 100, ClientCPU: 1, ServerCPUPerRequest: 50, ServerBusy: 4000e-9, ClientBusy: 30e-9, PerServerCore: 1e7,
			Ratios: []Ratio{{Base: "fast", ServerCPU: 1, ServerCPUPerRequest: 1, PerSecond: 1, P50: 1, P99: 1}}},
		{Name: "far", Group: "X", Concurrency: 7, Rounds: 2, Completed: 20, Requests: 40, PerSecond: 10, RequestsPerSecond: 20, ClientCPU: 1, ClientBusy: 10e-9,
			Ratios: []Ratio{{Base: "fast", PerSecond: 0.5}}},
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("got  %+v\nwant %+v", got[i], want[i])
		}
	}
}

// TestInterleave: every subject has its turn in each round, and each round begins with
// another.
func TestInterleave(t *testing.T) {
	var turns []int
	if err := Interleave(4, 3, func(i int) error { turns = append(turns, i); return nil }); err != nil {
		t.Fatal(err)
	}
	if want := []int{0, 1, 2, 1, 2, 0, 2, 0, 1, 0, 1, 2}; !slices.Equal(turns, want) {
		t.Errorf("%v", turns)
	}
	n := 0
	stop := fmt.Errorf("stop")
	if err := Interleave(4, 3, func(int) error { n++; return stop }); err != stop || n != 1 {
		t.Errorf("%v after %d", err, n)
	}
}

// target is a server in this process.
func target(t *testing.T, name string, base bool) Target {
	t.Helper()
	cert, err := certificates.SelfSigned("load.example")
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{TLSConfig: &tls.Config{Certificates: []tls.Certificate{*cert}}, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go server.ServeTLS(ln, "", "")
	t.Cleanup(func() { server.Close() })
	return Target{Name: name, ServerPID: os.Getpid(), Base: base,
		Load: loadgen.Load{Addresses: []string{ln.Addr().String()}, ServerName: "load.example", Certificate: cert.Certificate[0], Group: tls.X25519}}
}

// TestRun measures two servers, and a third whose process is not known.
func TestRun(t *testing.T) {
	far := target(t, "far", false)
	far.ServerPID = 0
	var ready int
	var progress bytes.Buffer
	p := &Plan{Targets: []Target{target(t, "a", true), target(t, "b", false), far}, Concurrency: []int{1, 2}, Rounds: 2,
		Span: loadgen.Span{Count: 5}, WarmUp: time.Millisecond, Progress: &progress,
		Ready: func(context.Context, Target) error { ready++; return nil }}
	r, err := p.Run(context.Background(), "program 1")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Levels) != 2 || r.Interrupted || len(r.Failures()) != 0 || ready != 12 || strings.Count(progress.String(), "\n") != 2 {
		t.Fatalf("%+v, ready %d times", r, ready)
	}
	for i, level := range r.Levels {
		for n, row := range level {
			if row.Name != p.Targets[n].Name || row.Concurrency != p.Concurrency[i] || row.Rounds != 2 || row.Completed != 10 || row.ClientCPU <= 0 ||
				(row.ServerCPU > 0) != (row.Name != "far") || len(row.Ratios) != 1 || row.Ratios[0].Base != "a" || (row.Ratios[0].ServerCPU > 0) != (row.Name != "far") {
				t.Errorf("%+v", row)
			}
		}
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"program 1, " + machine.This().String(), "Concurrency 2:", "CPU to a", "Medians of 2 interleaved rounds of 5 connections"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
	if strings.Contains(text.String(), "request") {
		t.Errorf("columns for requests, of which there were none:\n%s", &text)
	}
}

// TestInterrupted: the report holds what was measured until then, and says so.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	turns := 0
	p := &Plan{Targets: []Target{target(t, "a", true), target(t, "b", false)}, Concurrency: []int{1, 2}, Rounds: 100, Span: loadgen.Span{Count: 2},
		Ready: func(context.Context, Target) error {
			if turns++; turns == 4 {
				cancel()
			}
			return nil
		}}
	r, err := p.Run(ctx, "")
	if err != nil || !r.Interrupted || len(r.Levels) != 1 || r.Levels[0][0].Completed != 2 || r.Levels[0][1].Completed != 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "\nInterrupted: ") {
		t.Errorf("%v\n%s", err, &text)
	}
}

// TestInterruptedAtOnce leaves nothing to report, and that can be printed too.
func TestInterruptedAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p := &Plan{Targets: []Target{target(t, "a", true)}, Concurrency: []int{1}, Rounds: 1, Span: loadgen.Span{Count: 2}}
	r, err := p.Run(ctx, "")
	if err != nil || !r.Interrupted || len(r.Levels) != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := r.WriteText(new(bytes.Buffer)); err != nil {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	good := func() *Plan {
		return &Plan{Targets: []Target{target(t, "a", false)}, Concurrency: []int{1}, Rounds: 1, Span: loadgen.Span{Count: 1}}
	}
	for want, change := range map[string]func(*Plan){
		"comparison: 0 rows":                  func(p *Plan) { p.Targets = nil },
		"comparison: 0 rounds":                func(p *Plan) { p.Rounds = 0 },
		"comparison: 1001 rounds":             func(p *Plan) { p.Rounds = 1001 },
		"comparison: 0 levels of concurrency": func(p *Plan) { p.Concurrency = nil },
		"comparison: neither a duration nor":  func(p *Plan) { p.Span = loadgen.Span{} },
		"comparison: a warm-up of -1ns":       func(p *Plan) { p.WarmUp = -1 },
		"comparison: two rows are named \"a\"": func(p *Plan) {
			p.Targets = append(p.Targets, p.Targets[0])
		},
		"a: loadgen: 0 connections at once":    func(p *Plan) { p.Concurrency[0] = 0 },
		"a: machine: there is no process":      func(p *Plan) { p.Targets[0].ServerPID = 1<<22 + 1 },
		"a: loadgen: getting a session of 127": func(p *Plan) { p.Targets[0].Load.Resume, p.Targets[0].Load.Group = true, tls.CurveID(0x7777) },
		"a: not ready": func(p *Plan) {
			p.Ready = func(context.Context, Target) error { return fmt.Errorf("not ready") }
		},
	} {
		p := good()
		change(p)
		if _, err := p.Run(context.Background(), ""); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestWarnings: a client that is the limit, and causes that the caller can do something
// about.
func TestWarnings(t *testing.T) {
	r := &Report{Machine: machine.Machine{Cores: 2}, Levels: [][]Row{{
		{Name: "a", Concurrency: 1, ClientBusy: 1.6, Failures: map[string]int{"out of file descriptors": 1, "timed out": 1}},
		{Name: "b", Concurrency: 1, ClientBusy: 1.8},
	}}}
	got := r.warnings()
	if len(got) != 2 || !strings.HasPrefix(got[0], "a, concurrency 1: out of file descriptors: raise the limit") ||
		!strings.HasPrefix(got[1], "b, concurrency 1: the client kept 90 % of its cores busy and may have been the limit") {
		t.Errorf("%q", got)
	}
}

func TestFailures(t *testing.T) {
	r := &Report{Levels: [][]Row{{{Name: "a", Concurrency: 3, Completed: 1}, {Name: "b", Concurrency: 3}, {Name: "c", Concurrency: 3, Completed: 5, Failed: 2, Errors: []string{"x", "y"}},
		{Name: "d", Concurrency: 3, Completed: 5, Errors: []string{"z"}}}}}
	want := []string{"b, concurrency 3: no handshake was completed", "c, concurrency 3: 2 failed, such as: x; y", "d, concurrency 3: 0 failed, such as: z"}
	if got := r.Failures(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestMethod: the text says what bounded a measurement, both where both can.
func TestMethod(t *testing.T) {
	for want, r := range map[string]*Report{
		"One round of 5s; ":                                     {Rounds: 1, Duration: 5 * time.Second},
		"One round of 3 connections; ":                          {Rounds: 1, Count: 3},
		"One round of 5s or 3 connections, whichever is less; ": {Rounds: 1, Duration: 5 * time.Second, Count: 3},
		"Medians of 2 interleaved rounds of 3 connections, ":    {Rounds: 2, Count: 3},
	} {
		if got := r.method(); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q first", got, want)
		}
	}
}
