package proxy

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestLeave: a connection that is idle stays open until its next answer, which says
// that it is the last; over HTTP/2 that is GOAWAY. Then nothing is left to wait for.
func TestLeave(t *testing.T) {
	forBoth(t, func(t *testing.T, http2 bool) {
		r := newRig(t, nil, hello)
		client := r.client(http2)
		r.get(client, "/")
		left := make(chan bool)
		go func() {
			r.server.Leave(context.Background())
			close(left)
		}()
		for !r.server.leaving.Load() {
			time.Sleep(time.Millisecond)
		}
		response, err := client.Get("https://front.example/")
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if response.Close == http2 {
			t.Errorf("Connection: close is %v", response.Close)
		}
		<-left
		if _, err := client.Get("https://front.example/"); err == nil {
			t.Error("a new connection was accepted")
		}
		if err := r.server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestLeaveIsBounded: a client that says nothing more is not waited for longer than
// asked, and a connection in its handshake can end it.
func TestLeaveIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMemRig(t, nil, hello)
		c := r.connect()
		if status, _ := r.exchange(c, "front.example", "/"); status != 200 {
			t.Error(status)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 7*time.Second)
		defer cancel()
		start := time.Now()
		r.server.Leave(ctx)
		if waited := time.Since(start); waited != 7*time.Second {
			t.Errorf("left after %v", waited)
		}
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: front.example\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || !response.Close {
			t.Fatalf("%+v, %v", response, err)
		}
		io.Copy(io.Discard, response.Body)
		if n, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%d bytes after the last answer, %v", n, err)
		}
		c.Close()
	})
}
