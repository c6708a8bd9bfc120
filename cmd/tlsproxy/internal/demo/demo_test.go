package demo

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/loadgen"
)

// The whole demonstration, client process included, is tested with the program.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func options() Options {
	return Options{Listen: "127.0.0.1:0", Groups: []tls.CurveID{tls.X25519}, Rounds: 1, Duration: time.Millisecond, Concurrency: 1,
		Provider: config.Default().Provider, Client: []string{"false"}, Stderr: new(bytes.Buffer), Logger: slog.New(slog.DiscardHandler)}
}

func TestBounds(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"demo: no group to measure":                              func(o *Options) { o.Groups = nil },
		"demo: 0 rounds; possible are 1 to 1000":                 func(o *Options) { o.Rounds = 0 },
		"demo: 1001 rounds; possible are 1 to 1000":              func(o *Options) { o.Rounds = 1001 },
		"demo: a duration of 0s; possible are 1ms to 1h0m0s":     func(o *Options) { o.Duration = 0 },
		"demo: 5000 connections at once; possible are 1 to 4096": func(o *Options) { o.Concurrency = 5000 },
	} {
		o := options()
		change(&o)
		if _, err := Start(o); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestClientThatFails: a client that cannot be started, or that ends, is an
// error and leaves nothing behind.
func TestClientThatFails(t *testing.T) {
	for _, test := range []struct {
		client []string
		want   string
	}{
		{nil, "demo: no command for the load client"},
		{[]string{"/no/such/program"}, "demo: starting the load client: "},
		{[]string{"false"}, "demo: the load client broke off: "},
		{[]string{"echo", "nonsense"}, "demo: the load client broke off: "},
	} {
		o := options()
		o.Client = test.client
		d, err := Start(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Measure(context.Background()); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%v: %v", test.client, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestInterrupted(t *testing.T) {
	o := options()
	o.Client = []string{"cat"} // takes every task, and gives it back as a result without a handshake
	d, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx, cancel := context.WithCancel(context.Background())
	c, err := startClient(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	cancel()
	if _, err := c.do(d.task(loadgen.Handshakes, tls.X25519, time.Second)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestRows checks medians, sums, and that ratios are taken round by round.
func TestRows(t *testing.T) {
	round := func(serverCPU time.Duration, n int) sample {
		return sample{serverCPU: serverCPU * time.Duration(n),
			Result: loadgen.Result{Completed: n, Elapsed: time.Second, CPU: time.Duration(n), P50: serverCPU, P90: 2 * serverCPU, P99: 3 * serverCPU}}
	}
	// The machine is three times slower in the last round: ratios do not see it.
	samples := [][]sample{
		{round(200, 10), round(220, 10), round(600, 10)},
		{round(100, 40), round(100, 20), round(300, 30)},
	}
	got := rows([]tls.CurveID{tls.X25519MLKEM768, tls.X25519}, samples)
	want := []Row{
		{Group: "X25519MLKEM768", Completed: 30, PerSecond: 10, P50: 220, P90: 440, P99: 660, ServerCPU: 220, ClientCPU: 1, Ratio: 2, Base: "X25519"},
		{Group: "X25519", Completed: 90, PerSecond: 30, P50: 100, P90: 200, P99: 300, ServerCPU: 100, ClientCPU: 1, Ratio: 1, Base: "X25519"},
	}
	for i := range want {
		if g, w := got[i], want[i]; g.Group != w.Group || g.Completed != w.Completed || g.PerSecond != w.PerSecond || g.P50 != w.P50 || g.P90 != w.P90 ||
			g.P99 != w.P99 || g.ServerCPU != w.ServerCPU || g.ClientCPU != w.ClientCPU || g.Ratio != w.Ratio || g.Base != w.Base || g.Failed != 0 {
			t.Errorf("got %+v\nwant %+v", g, w)
		}
	}
}

// TestFailures: each thing that can go wrong is listed, and nothing else.
func TestFailures(t *testing.T) {
	good := Answer{Status: 200}
	answers := func(p Probe) Probe { p.HTTP1.Proto, p.HTTP2.Proto = "HTTP/1.1", "HTTP/2.0"; return p }
	row := Row{Group: "X25519", Completed: 1, Base: "X25519"}
	fine := Report{Probes: []Probe{answers(Probe{Group: "X25519", HTTP1: good, HTTP2: good})}, Handshakes: []Row{row}, Requests: []Row{row}}
	if got := fine.Failures(); len(got) != 0 {
		t.Errorf("failures: %v", got)
	}
	bad := Report{
		Probes: []Probe{answers(Probe{Group: "X25519", HTTP1: Answer{Status: 502}, HTTP2: Answer{Errors: []string{"no answer"}}}),
			{Group: "P", HTTP1: Answer{Status: 200, Proto: "HTTP/1.1"}, HTTP2: Answer{Status: 200, Proto: "HTTP/1.1"}}},
		Handshakes: []Row{{Group: "A", Completed: 1, Failed: 2, Errors: []string{"wrong group"}}, {Group: "B"}},
		Requests:   []Row{{Group: "C", Completed: 1, Errors: []string{"the server counted otherwise"}}},
	}
	want := []string{
		"A: 2 failed, such as: wrong group",
		"B: no handshake was completed",
		"C: 0 failed, such as: the server counted otherwise",
		`a request over HTTP/1.1 with X25519: status 502 over "HTTP/1.1" `,
		`a request over HTTP/2.0 with P: status 200 over "HTTP/1.1" `,
		`a request over HTTP/2.0 with X25519: status 0 over "HTTP/2.0" no answer`,
	}
	if got := bad.Failures(); !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}
