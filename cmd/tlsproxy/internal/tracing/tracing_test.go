package tracing

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/accesslog"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/tracing/tracetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open starts a Tracer that sends to a Receiver.
func open(t *testing.T, change func(*Options)) (*Tracer, *tracetest.Receiver) {
	t.Helper()
	r := tracetest.Start(t)
	o := Options{Endpoint: r.URL, Service: "edge", Ratio: 1, Queue: 100, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	tracer, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tracer.Close(context.Background()) })
	return tracer, r
}

func shut(t *testing.T, tracer *Tracer) {
	t.Helper()
	if err := tracer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// byName returns the only span of each name.
func byName(t *testing.T, spans []tracetest.Span) map[string]tracetest.Span {
	t.Helper()
	all := map[string]tracetest.Span{}
	for _, s := range spans {
		if _, ok := all[s.Name]; ok {
			t.Errorf("%q came twice", s.Name)
		}
		all[s.Name] = s
	}
	return all
}

func has(t *testing.T, s tracetest.Span, want map[string]string) {
	t.Helper()
	for key, value := range want {
		if s.Attributes[key] != value {
			t.Errorf("%s: %s is %q, want %q", s.Name, key, s.Attributes[key], value)
		}
	}
}

const (
	theirTrace  = "0af7651916cd43dd8448eb211c80319c"
	theirParent = "00-" + theirTrace + "-b7ad6b7169203331-01"
	unsampled   = "00-" + theirTrace + "-b7ad6b7169203331-00"
)

func request(client, parent string) *http.Request {
	r := httptest.NewRequest("GET", "https://a.example/x?secret=1", nil)
	r.RemoteAddr = client
	if parent != "" {
		r.Header.Set("Traceparent", parent)
		r.Header.Set("Tracestate", "theirs=1")
	}
	return r
}

// TestRequest follows a request over a new connection, which two backends fail and a
// third answers.
func TestRequest(t *testing.T) {
	tracer, receiver := open(t, func(o *Options) { o.Headers = map[string]string{"Authorization": "Bearer x"} })
	accepted := time.Now().Add(-time.Second)
	q := tracer.Request(request("192.0.2.1:7", theirParent))
	if !q.Recording() {
		t.Fatal("it is not recorded")
	}
	var parents []string
	for i, err := range []error{errors.New("connection refused\n"), nil} {
		header := http.Header{"Traceparent": {theirParent}, "Tracestate": {"theirs=1"}}
		ended := q.Try("b.example:81", i, header)
		parents = append(parents, header.Get("Traceparent"))
		if header.Get("Tracestate") != "" {
			t.Error("a state that nobody vouches for was passed on")
		}
		ended(http.StatusServiceUnavailable, err)
	}
	client := accesslog.Client{Connection: 3, Remote: "192.0.2.1:7", SNI: "a.example", Queue: time.Millisecond, Batch: 2 * time.Millisecond, SignQueue: time.Millisecond / 2, SignBatch: time.Millisecond,
		TLS: &tls.ConnectionState{Version: tls.VersionTLS13, CipherSuite: tls.TLS_AES_128_GCM_SHA256, CurveID: tls.X25519MLKEM768, DidResume: true}}
	q.End(&accesslog.Request{Client: client, Proto: "HTTP/2.0", Method: "GET", Host: "a.example", Path: "/x", Status: 503, Received: 1, Sent: 2, Route: "/x/", Pool: "web", Backend: "b.example:81"},
		&Handshake{Client: client, Began: accepted, Ended: accepted.Add(9 * time.Millisecond), KeyExchange: accepted.Add(time.Millisecond), KeyExchanged: 4 * time.Millisecond,
			Signature: accepted.Add(6 * time.Millisecond), Signed: 2 * time.Millisecond})
	shut(t, tracer)

	spans := receiver.Spans()
	if len(spans) != 10 {
		t.Fatalf("%d spans", len(spans))
	}
	tries := spans[:2]
	all := byName(t, spans[2:])
	root := all["GET /x/"]
	has(t, root, map[string]string{"http.request.method": "GET", "http.route": "/x/", "url.path": "/x", "url.scheme": "https", "server.address": "a.example",
		"client.address": "192.0.2.1", "client.port": "7", "network.protocol.version": "2", "http.response.status_code": "503", "error.type": "503",
		"tls.curve": "X25519MLKEM768", "tls.protocol.version": "1.3", "tls.resumed": "true", "tls.cipher": "TLS_AES_128_GCM_SHA256",
		"tlsproxy.pool": "web", "tlsproxy.backend": "b.example:81", "tlsproxy.connection": "3", "http.request.body.size": "1", "http.response.body.size": "2"})
	if root.Parent != "" || root.Trace == theirTrace || root.Kind.String() != "SPAN_KIND_SERVER" || root.Status.Code.String() != "STATUS_CODE_ERROR" {
		t.Errorf("%+v", root)
	}
	if root.Resource["service.name"] != "edge" || root.Resource["service.version"] == "" {
		t.Errorf("from %v", root.Resource)
	}
	for i, s := range tries {
		if s.Name != "GET" || s.Parent != root.ID || s.Trace != root.Trace || s.Kind.String() != "SPAN_KIND_CLIENT" || parents[i] != "00-"+s.Trace+"-"+s.ID+"-01" {
			t.Errorf("try %d: %+v; the backend was told %s", i, s, parents[i])
		}
		has(t, s, map[string]string{"server.address": "b.example", "server.port": "81", "tlsproxy.backend": "b.example:81"})
	}
	has(t, tries[0], map[string]string{"error.type": "no answer", "http.request.resend_count": ""})
	if tries[0].Status.Message != `connection refused\x0a` {
		t.Errorf("%q", tries[0].Status.Message)
	}
	has(t, tries[1], map[string]string{"error.type": "503", "http.request.resend_count": "1"})
	for name, want := range map[string]struct {
		parent      string
		from, until time.Duration
	}{
		HandshakeSpan:   {root.ID, 0, 9 * time.Millisecond},
		KeyExchangeSpan: {all[HandshakeSpan].ID, time.Millisecond, 5 * time.Millisecond},
		QueueSpan:       {all[KeyExchangeSpan].ID, time.Millisecond, 2 * time.Millisecond},
		BatchSpan:       {all[KeyExchangeSpan].ID, 2 * time.Millisecond, 4 * time.Millisecond},
		SignatureSpan:   {all[HandshakeSpan].ID, 6 * time.Millisecond, 8 * time.Millisecond},
		SignQueueSpan:   {all[SignatureSpan].ID, 6 * time.Millisecond, 6500 * time.Microsecond},
		SignBatchSpan:   {all[SignatureSpan].ID, 6500 * time.Microsecond, 7500 * time.Microsecond},
	} {
		s := all[name]
		if s.Parent != want.parent || s.Trace != root.Trace || s.StartTimeUnixNano != uint64(accepted.Add(want.from).UnixNano()) || s.EndTimeUnixNano != uint64(accepted.Add(want.until).UnixNano()) {
			t.Errorf("%s: %+v, want %+v", name, s, want)
		}
	}
	has(t, all[HandshakeSpan], map[string]string{"tls.curve": "X25519MLKEM768", "tls.resumed": "true", "tlsproxy.sni": "a.example"})
	for _, h := range receiver.Headers() {
		if h.Get("Authorization") != "Bearer x" {
			t.Errorf("the receiver was told %v", h)
		}
	}
	if st := tracer.Stats(); *st != (Stats{Exported: 10}) {
		t.Errorf("%+v", st)
	}
}

// TestParents: a trace is another's part only if that one's client is trusted, which
// then decides whether it is recorded.
func TestParents(t *testing.T) {
	for name, c := range map[string]struct {
		client, parent     string
		ratio              float64
		recorded, belonged bool
	}{
		"alone":                {"10.1.2.3:1", "", 1, true, false},
		"alone, not sampled":   {"10.1.2.3:1", "", 0, false, false},
		"trusted":              {"10.1.2.3:1", theirParent, 0, true, true},
		"trusted, over IPv6":   {"[2001:db8::1]:1", theirParent, 0, true, true},
		"trusted, mapped":      {"[::ffff:10.1.2.3]:1", theirParent, 0, true, true},
		"trusted, not sampled": {"10.1.2.3:1", unsampled, 1, false, true},
		"trusted, nonsense":    {"10.1.2.3:1", "00-nonsense", 1, true, false},
		"not trusted":          {"192.0.2.1:1", theirParent, 1, true, false},
		"not trusted, silent":  {"192.0.2.1:1", theirParent, 0, false, false},
		"not trusted, by unix": {"@", theirParent, 0, false, false},
		"trusted, by unix":     {"", theirParent, 0, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			tracer, _ := open(t, func(o *Options) {
				o.TrustUnix = name == "trusted, by unix"
				o.Ratio, o.Trust = c.ratio, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
			})
			q := tracer.Request(request(c.client, c.parent))
			header := http.Header{"Traceparent": {"left"}, "Tracestate": {"left"}}
			q.Try("b:1", 0, header)(200, nil)
			parts := strings.Split(header.Get("Traceparent"), "-")
			if len(parts) != 4 || (parts[1] == theirTrace) != c.belonged || (parts[3] == "01") != c.recorded || q.Recording() != c.recorded {
				t.Errorf("recorded: %v, the backend is told %q", q.Recording(), header)
			}
			if state := header.Get("Tracestate"); (state == "theirs=1") != c.belonged || state == "left" {
				t.Errorf("the backend is told the state %q", state)
			}
			if q.Recording() {
				q.End(&accesslog.Request{Status: 200}, nil)
			}
		})
	}
}

// TestMethods: methods that a client makes up make no names of spans.
func TestMethods(t *testing.T) {
	tracer, receiver := open(t, nil)
	for _, m := range []string{"BREW" + strings.Repeat("W", 100), "get"} {
		r := request("192.0.2.1:1", "")
		r.Method = m
		tracer.Request(r).End(&accesslog.Request{Method: m}, nil)
	}
	shut(t, tracer)
	spans := receiver.Spans()
	if len(spans) != 2 {
		t.Fatalf("%d spans", len(spans))
	}
	for i, original := range []string{"BREW" + strings.Repeat("W", 28) + "...", "get"} {
		if spans[i].Name != "HTTP" {
			t.Errorf("named %q", spans[i].Name)
		}
		has(t, spans[i], map[string]string{"http.request.method": "_OTHER", "http.request.method_original": original, "error.type": "aborted"})
	}
}

// TestConnections: relayed ones, one that no backend took, and a handshake that failed.
func TestConnections(t *testing.T) {
	tracer, receiver := open(t, nil)
	accepted := time.Now().Add(-time.Second)
	client := accesslog.Client{Remote: "192.0.2.1:7", TLS: &tls.ConnectionState{Version: tls.VersionTLS12}}
	h := &Handshake{Client: client, Began: accepted, Ended: accepted.Add(time.Millisecond)}
	record := &accesslog.Connection{Client: client, Mode: "tcp", Pool: "db", Backend: "b:1", Received: 3, Sent: 4, Connected: time.Millisecond}
	tracer.Connection(accepted, h.Ended, func() (*accesslog.Connection, *Handshake) { return record, h }, nil)
	shut(t, tracer)
	all := byName(t, receiver.Spans())
	has(t, all[ConnectionSpan], map[string]string{"tlsproxy.mode": "tcp", "tlsproxy.pool": "db", "tlsproxy.backend": "b:1", "tlsproxy.sent_bytes": "4", "tlsproxy.received_bytes": "3", "error.type": ""})
	if len(all) != 3 || all[HandshakeSpan].Parent != all[ConnectionSpan].ID || all[ConnectSpan].Parent != all[ConnectionSpan].ID {
		t.Errorf("%v", all)
	}

	tracer, receiver = open(t, nil)
	record = &accesslog.Connection{Client: accesslog.Client{Remote: "192.0.2.1:7"}, Mode: "passthrough", Pool: "db", Connected: time.Millisecond}
	tracer.Connection(accepted, accepted, func() (*accesslog.Connection, *Handshake) { return record, nil }, errors.New("refused"))
	tracer.FailedHandshake(accepted, func() (*Handshake, *Failure) {
		return h, &Failure{Outcome: "refused", Reason: "no group in common", AlertSent: "handshake failure"}
	})
	shut(t, tracer)
	all = byName(t, receiver.Spans())
	has(t, all[ConnectionSpan], map[string]string{"error.type": "no backend", "tls.protocol.version": ""})
	has(t, all[ConnectSpan], map[string]string{"error.type": "no connection"})
	has(t, all[HandshakeSpan], map[string]string{"error.type": "refused", "tlsproxy.handshake.outcome": "refused", "tlsproxy.handshake.alert_sent": "handshake failure", "tls.protocol.version": "1.2"})
	if s := all[HandshakeSpan]; len(all) != 3 || s.Parent != "" || s.Status.Message != "no group in common" {
		t.Errorf("%v", all)
	}
}

// TestRefused: what the receiver does not take is counted and logged, once a second at
// most, without the headers.
func TestRefused(t *testing.T) {
	var log bytes.Buffer
	tracer, receiver := open(t, func(o *Options) {
		o.Headers, o.Logger = map[string]string{"Authorization": "secret"}, slog.New(slog.NewTextHandler(&log, nil))
	})
	receiver.Answer(http.StatusBadRequest)
	for range 3 {
		tracer.Request(request("192.0.2.1:1", "")).End(&accesslog.Request{Method: "GET", Status: 200}, nil)
		if err := tracer.queue.ForceFlush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	shut(t, tracer)
	if st := tracer.Stats(); *st != (Stats{Failed: 3}) {
		t.Errorf("%+v", st)
	}
	if n := strings.Count(log.String(), "traces could not be sent"); n < 1 || !strings.Contains(log.String(), "400 Bad Request") || strings.Contains(log.String(), "secret") {
		t.Errorf("%s", &log)
	}
}

// TestRedirect: what is meant for the receiver goes nowhere else.
func TestRedirect(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { t.Error("followed, with", r.Header) }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	tracer, _ := open(t, func(o *Options) { o.Endpoint = server.URL + "/v1/traces" })
	tracer.Request(request("192.0.2.1:1", "")).End(&accesslog.Request{Method: "GET", Status: 200}, nil)
	shut(t, tracer)
	if st := tracer.Stats(); *st != (Stats{Failed: 1}) {
		t.Errorf("%+v", st)
	}
}

// blocking is an exporter that waits for its end.
type blocking struct {
	entered, leave chan bool
	once           sync.Once
}

func (b *blocking) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	b.entered <- true
	<-b.leave
	return nil
}

func (b *blocking) Shutdown(context.Context) error {
	b.once.Do(func() { close(b.leave) })
	return nil
}

// TestQueue: with a receiver that does not answer spans are dropped beyond the bound,
// nobody waits, and the end comes when its time is over.
func TestQueue(t *testing.T) {
	b := &blocking{entered: make(chan bool, 10), leave: make(chan bool)}
	q := newQueue(b, 4, slog.New(slog.DiscardHandler))
	p := sdk.NewTracerProvider(sdk.WithSpanProcessor(q))
	tracer := &Tracer{tracer: p.Tracer(""), queue: q, client: http.DefaultClient}
	end := func() {
		tracer.Request(request("192.0.2.1:1", "")).End(&accesslog.Request{Method: "GET", Status: 200}, nil)
	}
	for range 4 {
		end()
	}
	<-b.entered // a batch of four is being sent
	for range 3 {
		end()
	}
	if st := tracer.Stats(); *st != (Stats{Dropped: 3}) {
		t.Errorf("%+v", st)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tracer.Close(ctx); err == nil || err.Error() != "tracing: the time to send spans was over; dropped: 4" {
		t.Errorf("Close: %v", err)
	}
	if st := tracer.Stats(); *st != (Stats{Dropped: 7}) {
		t.Errorf("%+v", st)
	}
}

// TestNothing: no Tracer is no cost.
func TestNothing(t *testing.T) {
	var tracer *Tracer
	r := request("192.0.2.1:1", theirParent)
	now := time.Now()
	if n := testing.AllocsPerRun(100, func() {
		if q := tracer.Request(r); q != nil || q.Recording() {
			t.Error("something is traced")
		}
		tracer.FailedHandshake(now, nil)
		tracer.Connection(now, now, nil, nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if tracer.Stats() != nil || tracer.Close(t.Context()) != nil {
		t.Error("there is something to close")
	}
}
