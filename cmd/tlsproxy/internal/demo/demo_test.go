package demo

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/comparison"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
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
	if _, err := c.do(loadgen.Task{Load: d.load(tls.X25519, 0), Span: loadgen.Span{Duration: time.Second}}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestLimits: the one client may do all that the proxy can, and no load is shed before the client gives up.
func TestLimits(t *testing.T) {
	d := &Demo{options: options()}
	l := d.config(&net.TCPAddr{}).Limits
	const clientGivesUp = config.Duration(10 * time.Second)
	if l.HandshakesPerSource < l.Handshakes || l.ConnectionsPerSource < l.Connections || l.HandshakeRatePerSource != 0 || l.KeyExchangeWait < clientGivesUp {
		t.Errorf("%+v", l)
	}
}

// TestSubjects: ratios are to X25519 wherever it stands, else to the first.
func TestSubjects(t *testing.T) {
	for _, test := range []struct {
		ids  []tls.CurveID
		base int
	}{
		{[]tls.CurveID{tls.X25519MLKEM768, tls.X25519}, 1},
		{[]tls.CurveID{tls.X25519MLKEM768, tls.CurveP256}, 0},
	} {
		for i, s := range subjects(test.ids) {
			if s.Base != (i == test.base) || s.Name != groups.Name(test.ids[i]) {
				t.Errorf("%v: %+v", test.ids, s)
			}
		}
	}
}

// TestFailures: each thing that can go wrong is listed, and nothing else.
func TestFailures(t *testing.T) {
	good := Answer{Status: 200}
	answers := func(p Probe) Probe { p.HTTP1.Proto, p.HTTP2.Proto = http1, http2; return p }
	row := comparison.Row{Name: "X25519", Completed: 1}
	fine := Report{Probes: []Probe{answers(Probe{Group: "X25519", HTTP1: good, HTTP2: good})}, Handshakes: []comparison.Row{row}, Requests: []comparison.Row{row}}
	if got := fine.Failures(); len(got) != 0 {
		t.Errorf("failures: %v", got)
	}
	bad := Report{
		Probes: []Probe{answers(Probe{Group: "X25519", HTTP1: Answer{Status: 502}, HTTP2: Answer{Errors: []string{"no answer"}}}),
			{Group: "P", HTTP1: Answer{Status: 200, Proto: "HTTP/1.1"}, HTTP2: Answer{Status: 200, Proto: "HTTP/1.1"}}},
		Handshakes: []comparison.Row{{Name: "A", Completed: 1, Failed: 2, Errors: []string{"wrong group"}}, {Name: "B"}},
		Requests:   []comparison.Row{{Name: "C", Completed: 1, Errors: []string{"the server counted otherwise"}}},
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
