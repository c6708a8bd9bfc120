package service

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logtest"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/tracing/tracetest"
)

// edge is a Service that traces, in front of a backend that tells what it was asked.
type edge struct {
	*Service
	t        *testing.T
	receiver *tracetest.Receiver
	log      *logtest.Buffer
	asked    chan http.Header
	stop     func() // and wait for the end
}

// traceEdge starts one. rest is what the configuration says besides; DEAD in it is an
// address where nobody listens, ECHO one that sends back what it gets.
func traceEdge(t *testing.T, tracing, rest string) *edge {
	t.Helper()
	e := &edge{t: t, receiver: tracetest.Start(t), log: new(logtest.Buffer), asked: make(chan http.Header, 10)}
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.asked <- r.Header }))
	t.Cleanup(back.Close)
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { echo.Close() })
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			io.Copy(c, c)
			c.Close()
		}
	}()
	rest = strings.NewReplacer("DEAD", nobody.Addr().String(), "ECHO", echo.Addr().String(), "BACK", back.URL).Replace(rest)
	file := "certificates: [{cert: a, key: b}]\nlisten: 127.0.0.1:0\ntls: {groups: [X25519MLKEM768, X25519]}\n" + rest
	if tracing != "" {
		file += fmt.Sprintf("\ntracing: {endpoint: '%s', %s}\n", e.receiver.URL, tracing)
	}
	p := plan(t, func(c *config.Config) {
		given, err := config.Parse("c.yaml", []byte(file))
		if err != nil {
			t.Fatal(err)
		}
		*c = *given
	})
	if e.Service, err = p.Start(slog.New(slog.NewTextHandler(e.log, nil))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- e.Run(ctx, nil) }()
	stopped := false
	e.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(e.stop)
	return e
}

// request sends requests over one connection.
func (e *edge) request(n int, header http.Header) {
	e.t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "a.example"}}
	defer transport.CloseIdleConnections()
	for range n {
		r, err := http.NewRequestWithContext(e.t.Context(), "GET", "https://"+e.Addresses()[0].String()+"/x/y?q", nil)
		if err != nil {
			e.t.Fatal(err)
		}
		r.Header, r.Host = header.Clone(), "a.example"
		response, err := transport.RoundTrip(r)
		if err != nil {
			e.t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != 200 {
			e.t.Error(response.Status)
		}
	}
}

func spansOf(spans []tracetest.Span, name string) (all []tracetest.Span) {
	for _, s := range spans {
		if s.Name == name {
			all = append(all, s)
		}
	}
	return all
}

const foreign = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestTraceOfRequests: the handshake belongs to the first request over a connection,
// each try at a backend is there, and all of it has arrived when the proxy has ended.
func TestTraceOfRequests(t *testing.T) {
	e := traceEdge(t, "ratio: 1", "backends: {urls: ['http://DEAD', 'BACK']}\nhosts: [{names: a.example, pool: default, routes: [{path: /x/, pool: default}]}]\nlog: {requests: true}\n")
	e.request(2, http.Header{"Traceparent": {foreign}, "Tracestate": {"theirs=1"}})
	e.stop()
	spans := e.receiver.Spans()
	requests, tries := spansOf(spans, "GET /x/"), spansOf(spans, "GET")
	handshakes := spansOf(spans, "TLS handshake")
	if len(requests) != 2 || len(handshakes) != 1 || len(tries) < 3 || len(spans) != 3+len(tries) {
		t.Fatalf("%v", spans)
	}
	first, second := requests[0], requests[1]
	if handshakes[0].Parent != first.ID || handshakes[0].Attributes["tls.curve"] != "X25519MLKEM768" || handshakes[0].Attributes["tls.resumed"] != "false" {
		t.Errorf("%v", handshakes[0])
	}
	if first.Parent != "" || first.Trace == second.Trace || strings.Contains(foreign, first.Trace) {
		t.Errorf("%v\n%v", first, second)
	}
	if first.Attributes["http.response.status_code"] != "200" || first.Attributes["tlsproxy.pool"] != "default" || first.Attributes["url.path"] != "/x/y" {
		t.Errorf("%v", first.Attributes)
	}
	answered := map[string]string{} // traces, by what the backend was told
	for _, s := range requests {
		e.log.Find("msg=request .*trace_id=" + s.Trace)
	}
	families, err := e.operation.metrics.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	exemplars := ""
	for _, f := range families {
		if f.GetName() == "tlsproxy_request_duration_seconds" {
			exemplars = f.String()
		}
	}
	if !strings.Contains(exemplars, first.Trace) && !strings.Contains(exemplars, second.Trace) {
		t.Errorf("no exemplar in %s", exemplars)
	}
	failed := 0
	for _, s := range tries {
		if s.Attributes["error.type"] != "" {
			failed++
			continue
		}
		answered["00-"+s.Trace+"-"+s.ID+"-01"] = s.Trace
	}
	for range 2 {
		header := <-e.asked
		if trace := answered[header.Get("Traceparent")]; trace == "" || header.Get("Tracestate") != "" {
			t.Errorf("the backend was told %v, of %v", header, answered)
		}
	}
	if failed == 0 || failed+2 != len(tries) {
		t.Errorf("%d of %d tries failed", failed, len(tries))
	}
}

// TestTraceOfTrustedClients: their requests are parts of their own traces.
func TestTraceOfTrustedClients(t *testing.T) {
	e := traceEdge(t, "ratio: 0, trust: 127.0.0.0/8", "backends: {urls: 'BACK'}\n")
	e.request(1, http.Header{"Traceparent": {foreign}, "Tracestate": {"theirs=1"}})
	e.request(1, http.Header{}) // not sampled
	e.stop()
	spans := e.receiver.Spans()
	if len(spans) != 3 { // request, try, handshake
		t.Fatalf("%v", spans)
	}
	for _, s := range spans {
		if !strings.Contains(foreign, s.Trace) {
			t.Errorf("%s is in a trace of its own", s.Name)
		}
	}
	if header := <-e.asked; !strings.HasPrefix(header.Get("Traceparent"), foreign[:36]) || header.Get("Tracestate") != "theirs=1" {
		t.Errorf("the backend was told %v", header)
	}
	if header := <-e.asked; !strings.HasSuffix(header.Get("Traceparent"), "-00") {
		t.Errorf("the backend was told %v", header)
	}
}

// TestTraceOfConnections: relayed ones, whose backend is there or is not, and
// handshakes that fail.
func TestTraceOfConnections(t *testing.T) {
	e := traceEdge(t, "ratio: 1", `backends: {urls: BACK}
pools: {echo: {urls: 'tcp://ECHO'}, dead: {urls: 'tcp://DEAD'}}
hosts: [{names: echo.example, mode: tcp, pool: echo}, {names: dead.example, mode: tcp, pool: dead}]
`)
	for _, name := range []string{"echo.example", "dead.example"} {
		c, err := tls.Dial("tcp", e.Addresses()[0].String(), &tls.Config{InsecureSkipVerify: true, ServerName: name})
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "hello")
		c.CloseWrite()
		io.Copy(io.Discard, c)
		c.Close()
	}
	if c, err := tls.Dial("tcp", e.Addresses()[0].String(), &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.CurveP256}}); err == nil {
		c.Close()
		t.Error("a handshake without a group in common")
	}
	e.stop()
	spans := e.receiver.Spans()
	connections, handshakes := spansOf(spans, "connection"), spansOf(spans, "TLS handshake")
	if len(connections) != 2 || len(handshakes) != 3 || len(spansOf(spans, "connect")) != 2 || len(spans) != 7 {
		t.Fatalf("%v", spans)
	}
	for _, s := range connections {
		switch a := s.Attributes; a["tlsproxy.sni"] {
		case "echo.example":
			if a["tlsproxy.received_bytes"] != "5" || a["tlsproxy.sent_bytes"] != "5" || a["error.type"] != "" {
				t.Errorf("%v", a)
			}
		case "dead.example":
			if a["error.type"] != "no backend" {
				t.Errorf("%v", a)
			}
		default:
			t.Errorf("%v", a)
		}
	}
	failed := 0
	for _, s := range handshakes {
		if s.Parent == "" {
			failed++
			if a := s.Attributes; a["tlsproxy.handshake.outcome"] != "refused" || a["tlsproxy.handshake.alert_sent"] != "handshake failure" {
				t.Errorf("%v", a)
			}
		}
	}
	if failed != 1 {
		t.Errorf("%d failed", failed)
	}
}

// TestTraceNothing: without the key there is no tracer, and what clients send about
// traces reaches backends as it is.
func TestTraceNothing(t *testing.T) {
	e := traceEdge(t, "", "backends: {urls: 'BACK'}\n")
	if e.tracer != nil {
		t.Error("there is a tracer")
	}
	e.request(1, http.Header{"Traceparent": {foreign}, "Tracestate": {"theirs=1"}})
	if header := <-e.asked; header.Get("Traceparent") != foreign || header.Get("Tracestate") != "theirs=1" {
		t.Errorf("the backend was told %v", header)
	}
	e.stop()
	if n := len(e.receiver.Headers()); n != 0 {
		t.Errorf("the receiver was asked %d times", n)
	}
}

// TestTraceToNobody: a receiver that takes nothing costs no request, and the metrics
// tell.
func TestTraceToNobody(t *testing.T) {
	e := traceEdge(t, "ratio: 1", "backends: {urls: 'BACK'}\n")
	e.receiver.Answer(http.StatusForbidden)
	e.request(1, http.Header{})
	e.stop()
	if !strings.Contains(e.log.String(), "traces could not be sent") {
		t.Error(e.log.String())
	}
	if st := e.state().Tracing; st.Failed != 3 || st.Exported != 0 {
		t.Errorf("%+v", st)
	}
}

// TestTraceToOneWhoHangs: the end of the proxy does not wait for a receiver that does
// not answer longer than it may, and tells what was lost.
func TestTraceToOneWhoHangs(t *testing.T) {
	e := traceEdge(t, "ratio: 1", "backends: {urls: 'BACK'}\ntimeouts: {drain: 0s}\n")
	e.receiver.Answer(0)
	e.request(1, http.Header{})
	e.stop()
	if !strings.Contains(e.log.String(), `msg="tracing ended" err="tracing: the time to send spans was over; dropped: 3"`) {
		t.Error(e.log.String())
	}
	if st := e.state().Tracing; st.Dropped != 3 || st.Exported != 0 {
		t.Errorf("%+v", st)
	}
}

// TestReadHeaders: mistakes are told without what may be a secret.
func TestReadHeaders(t *testing.T) {
	name := filepath.Join(t.TempDir(), "headers")
	for text, want := range map[string]string{
		"Authorization: Bearer s3cret\r\nX-Scope: a\n": "",
		"authorization: Bearer s3cret":                 "",
		"s3cret\n":                                     `something other than lines "Name: value"`,
		"":                                             `something other than lines "Name: value"`,
		"A: s3cret\nA: s3cret\n":                       "the header A twice",
		strings.Repeat("A: s3cret\n", maxHeaders/10+1): "larger than",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		headers, err := readHeaders(name)
		if want == "" {
			if err != nil || headers["Authorization"] != "Bearer s3cret" {
				t.Errorf("%v, %v", headers, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v, want %s", err, want)
		}
	}
	c := "certificates: [{cert: a, key: b}]\nbackends: {urls: http://127.0.0.1:1}\ntracing: {endpoint: 'https://t', ca: /nowhere/ca, headers_file: /nowhere/h}\n"
	parsed, err := config.Parse("c.yaml", []byte(c))
	if err != nil {
		t.Fatal(err)
	}
	p := &Plan{Config: parsed}
	if errs := p.readTracing(); len(errs) != 2 || errs[0].Line != 3 || errs[1].Line != 3 {
		t.Errorf("%v", errs)
	}
}
