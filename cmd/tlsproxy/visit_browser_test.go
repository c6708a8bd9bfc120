//go:build browser && sim && !nogpu

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/coder/websocket"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logtest"
)

// visited is a page that sends a body, follows events, and talks over a WebSocket.
const visited = `<!doctype html><title>visited</title><script>
const seen = {};
fetch("/echo", {method: "POST", body: "x".repeat(300000)}).then((r) => r.text()).then((t) => seen.echo = t.length);
const events = new EventSource("/events");
events.onmessage = (e) => { if (e.data === "2") { events.close(); seen.events = true; } };
const socket = new WebSocket("wss://" + location.host + "/socket");
socket.onopen = () => socket.send("hello");
socket.onmessage = (e) => { seen.socket = e.data; socket.close(1000); };
socket.onclose = (e) => seen.closed = e.code;
</script>`

// visitBackend serves visited and what it asks for.
func visitBackend(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, visited)
	})
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	mux.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			http.NewResponseController(w).Flush()
		}
		<-r.Context().Done() // the events before are not held back until there are no more
	})
	mux.HandleFunc("GET /socket", func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.CloseNow()
		for {
			kind, message, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), kind, message) != nil {
				return
			}
		}
	})
	backend := httptest.NewServer(mux)
	t.Cleanup(backend.Close)
	return backend.URL
}

// TestVisit goes through the proxy with Chromium: a page and an upload over HTTP/2, server-sent events that are not held back, and a WebSocket that is
// closed in order, with the post-quantum group that browsers have.
func TestVisit(t *testing.T) {
	noGPU(t)
	file := files(t, selfSigned(t), "listen: ['127.0.0.1:0']\nlog: {requests: true}\nbackends: {urls: '"+visitBackend(t)+"'}\n")
	log := new(logtest.Buffer)
	ctx, stop := context.WithCancel(context.Background())
	status := start(ctx, log, "run", "-c", file)
	t.Cleanup(func() {
		stop()
		if s := <-status; s != 0 {
			t.Errorf("status %d", s)
		}
	})
	_, port, err := net.SplitHostPort(log.Find(`msg=listening address=(\S+)`))
	if err != nil {
		t.Fatal(err)
	}
	b := openBrowser(t, "https://localhost:"+port+"/", chromedp.IgnoreCertErrors)
	b.await(`seen.echo === 300000 && seen.events && seen.socket === "hello" && seen.closed === 1000`)
	if got := b.text(`performance.getEntriesByType("navigation")[0].nextHopProtocol`); got != "h2" {
		t.Errorf("the page came over %s", got)
	}
	for _, want := range []string{`proto=HTTP/2.0 method=POST host=localhost:\d+ path=/echo .*group=(\S+)`, `proto=HTTP/1.1 method=GET host=localhost:\d+ path=/socket .*group=(\S+)`} {
		if group := log.Find(want); group != "X25519MLKEM768" {
			t.Errorf("%s: %s", want, group)
		}
	}
}
