package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

// TestDrain: requests and tunnels under way come to their end, new connections
// are refused, and nothing is left.
func TestDrain(t *testing.T) {
	t.Run("Common", func(t *testing.T) { forBoth(t, func(t *testing.T, http2 bool) { drain(t, nil, http2) }) })
	t.Run("Mortal", func(t *testing.T) { forBoth(t, func(t *testing.T, http2 bool) { drain(t, mortal, http2) }) })
}

func drain(t *testing.T, change func(*config.Config), http2 bool) {
	entered, leave := make(chan bool), make(chan bool)
	r := newRig(t, change, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Upgrade") != "" {
			switching(func(c net.Conn, in *bufio.Reader) { io.Copy(c, in) })(w, req)
			return
		}
		entered <- true
		<-leave
		hello(w, req)
	})
	idle := r.connect()
	io.WriteString(idle, "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n")
	if response, err := http.ReadResponse(bufio.NewReader(idle), nil); err != nil || response.StatusCode != 200 {
		t.Fatalf("%v %v", response, err)
	}
	silent, err := r.dial(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	tunnel, half := r.upgraded("")
	request := make(chan string)
	go func() {
		status, body := r.get(r.client(http2), "/")
		request <- fmt.Sprint(status, " ", body)
	}()
	<-entered
	stopped := make(chan error)
	go func() { stopped <- r.server.Shutdown(context.Background()) }()
	r.stopped = true

	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("a connection without ClientHello was answered")
	}
	if c, err := r.dial(context.Background()); err == nil {
		// The kernel may have taken it in before the listener closed.
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a new connection was answered")
		}
		c.Close()
	}
	idle.Read(make([]byte, 1)) // ends when the idle connection is closed
	io.WriteString(tunnel, "ping")
	if _, err := io.ReadFull(tunnel, make([]byte, 4)); err != nil {
		t.Errorf("the tunnel: %v", err)
	}
	leave <- true
	if got := <-request; got != "200 hello" {
		t.Errorf("the request: %s", got)
	}
	half.CloseWrite()
	if _, err := io.Copy(io.Discard, tunnel); err != nil {
		t.Errorf("the tunnel's end: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if st := r.server.Stats(); st.Open != 0 {
		t.Errorf("%+v", st)
	}
}

// TestDrainDeadline: what does not come to its end is cut.
func TestDrainDeadline(t *testing.T) {
	t.Run("Common", func(t *testing.T) { drainDeadline(t, nil) })
	t.Run("Mortal", func(t *testing.T) { drainDeadline(t, mortal) })
}

func drainDeadline(t *testing.T, change func(*config.Config)) {
	entered, ended := make(chan bool, 2), make(chan bool, 2)
	r := newRig(t, change, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Upgrade") != "" {
			switching(func(c net.Conn, in *bufio.Reader) { io.Copy(c, in) })(w, req)
			ended <- true
			return
		}
		entered <- true
		<-req.Context().Done()
		ended <- true
	})
	tunnel, _ := r.upgraded("")
	results := make(chan error)
	for _, http2 := range []bool{false, true} {
		go func() {
			_, err := r.client(http2).Get("https://front.example/")
			results <- err
		}()
		<-entered
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- r.server.Shutdown(ctx) }()
	r.stopped = true
	cancel()
	if err := <-stopped; err == nil || err.Error() != "proxy: the time to drain was over; connections cut: 3" {
		t.Errorf("Shutdown: %v", err)
	}
	for range 2 {
		if err := <-results; err == nil {
			t.Error("a request that was cut got an answer")
		}
	}
	if _, err := tunnel.Read(make([]byte, 1)); err == nil {
		t.Error("read from a tunnel that was cut")
	}
	for range 3 {
		<-ended
	}
	if got := r.log.String(); strings.Contains(got, "no answer from a backend") {
		t.Errorf("the backend was blamed: %s", got)
	}
}
