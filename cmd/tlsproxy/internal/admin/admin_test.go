package admin

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start returns where a Server answers for the length of a test.
func start(t *testing.T, o Options) (base string) {
	t.Helper()
	o.Config = func() []byte { return []byte("listen: here\n") }
	o.Status = func() any { return map[string]int{"connections": 7} }
	o.Live = func() any { return map[string]int{"connections": 8} }
	o.Metrics, o.Logger = prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(o)
	ended := make(chan error)
	go func() { ended <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return "http://" + ln.Addr().String()
}

func get(t *testing.T, r *http.Request) (status int, body string) {
	t.Helper()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func request(t *testing.T, method, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAnswers(t *testing.T) {
	reason := error(nil)
	base := start(t, Options{Ready: func() error { return reason }, Health: func() []string { return []string{"GPU 0 is closed"} }})
	for _, c := range []struct {
		path   string
		status int
		holds  string
	}{
		{"/healthz", 200, "ok\nGPU 0 is closed\n"},
		{"/readyz", 200, "ready\n"},
		{"/config", 200, "listen: here\n"},
		{"/status", 200, "\"connections\": 7"},
		{"/metrics", 200, ""},
		{"/debug/pprof/", 200, "goroutine"},
		{"/debug/pprof/goroutine?debug=1", 200, "goroutine profile"},
		{"/", 200, `src="/live.js"`},
		{"/live.js", 200, "EventSource"},
		{"/live.css", 200, "prefers-color-scheme"},
		{"/nothing", 404, ""},
	} {
		if status, body := get(t, request(t, "GET", base+c.path)); status != c.status || !strings.Contains(body, c.holds) {
			t.Errorf("%s: %d %q, want %d %q", c.path, status, body, c.status, c.holds)
		}
	}
	if status, _ := get(t, request(t, "POST", base+"/config")); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", status)
	}
	reason = errors.New("draining")
	if status, body := get(t, request(t, "GET", base+"/readyz")); status != http.StatusServiceUnavailable || body != "not ready: draining\n" {
		t.Errorf("%d %q", status, body)
	}
}

// A web page whose name was made to lead here is told nothing.
func TestForeignHost(t *testing.T) {
	base := start(t, Options{Ready: func() error { return nil }, Health: func() []string { return nil }})
	for host, want := range map[string]int{"evil.example": http.StatusMisdirectedRequest, "evil.example:80": http.StatusMisdirectedRequest,
		"localhost.evil.example": http.StatusMisdirectedRequest, "localhost:1": 200, "localhost": 200, "[::1]:1": 200, "127.0.0.1": 200} {
		r := request(t, "GET", base+"/config")
		r.Host = host
		if status, body := get(t, r); status != want || want != 200 && strings.Contains(body, "listen:") {
			t.Errorf("%s: %d %q", host, status, body)
		}
	}
}

// TestEvents follows the live page's figures until the Server is closed; more
// clients than there is room for are sent away.
func TestEvents(t *testing.T) {
	base := start(t, Options{Ready: func() error { return nil }, Health: func() []string { return nil }})
	for i := range maxFollow {
		response, err := http.DefaultClient.Do(request(t, "GET", base+"/events"))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		line, err := bufio.NewReader(response.Body).ReadString('\n')
		if err != nil || line != "data: {\"connections\":8}\n" || response.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("client %d: %q, %v", i, line, err)
		}
	}
	if status, body := get(t, request(t, "GET", base+"/events")); status != http.StatusServiceUnavailable {
		t.Errorf("one client more: %d %q", status, body)
	}
}

// The load is for a demonstration's own page alone.
func TestDemoLoad(t *testing.T) {
	begun := 0
	o := Options{Ready: func() error { return nil }, Health: func() []string { return nil }, DemoLoad: func() error {
		if begun++; begun > 1 {
			return errors.New("it runs")
		}
		return nil
	}}
	base := start(t, o)
	for _, c := range []struct {
		origin string
		status int
	}{{"http://evil.example", http.StatusForbidden}, {"null", http.StatusForbidden}, {base, http.StatusAccepted}, {base, http.StatusConflict}} {
		r := request(t, "POST", base+"/demo/load")
		r.Header.Set("Origin", c.origin)
		if status, body := get(t, r); status != c.status {
			t.Errorf("from %s: %d %q, want %d", c.origin, status, body, c.status)
		}
	}
	if begun != 2 {
		t.Errorf("%d loads", begun)
	}
	o.DemoLoad = nil
	if status, _ := get(t, request(t, "POST", start(t, o)+"/demo/load")); status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
		t.Errorf("without a demonstration: %d", status)
	}
}
