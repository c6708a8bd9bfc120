package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

const minute = config.Duration(time.Minute)

// between checks that something was cut off no earlier than the time-out and
// no later than a quarter after it.
func between(t *testing.T, start time.Time) {
	t.Helper()
	if d := time.Since(start); d < time.Minute || d > time.Minute+time.Minute/4 {
		t.Errorf("cut off after %v, want 1m to 1m15s", d)
	}
}

// slowBody gives a byte each time it is asked, after a pause.
type slowBody struct {
	pauses []time.Duration
	end    func() (int, error)
}

func (s *slowBody) Read(b []byte) (int, error) {
	if len(s.pauses) == 0 {
		return s.end()
	}
	time.Sleep(s.pauses[0])
	s.pauses = s.pauses[1:]
	b[0] = 'x'
	return 1, nil
}

// TestSlowBody: a body may take for ever as long as something comes within the
// time-out each time.
func TestSlowBody(t *testing.T) {
	forBoth(t, func(t *testing.T, http2 bool) {
		synctest.Test(t, func(t *testing.T) {
			r := newMemRig(t, func(c *config.Config) { c.Timeouts.ReadBody = minute }, func(w http.ResponseWriter, req *http.Request) {
				n, err := io.Copy(io.Discard, req.Body)
				if err != nil {
					return
				}
				time.Sleep(10 * time.Minute / 20) // longer than the time-out is left of
				io.WriteString(w, strings.Repeat("x", int(n)))
			})
			body := &slowBody{end: func() (int, error) { return 0, io.EOF }}
			for range 20 {
				body.pauses = append(body.pauses, 59*time.Second)
			}
			response, err := r.client(http2).Post("https://front.example/", "text/plain", body)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if got, err := io.ReadAll(response.Body); len(got) != 20 || err != nil {
				t.Errorf("%s, %d bytes, %v", response.Status, len(got), err)
			}
		})
	})
}

// TestStalledBody: a body of which nothing comes is refused, and the request
// ends.
func TestStalledBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan bool, 1)
		r := newMemRig(t, func(c *config.Config) { c.Timeouts.ReadBody = minute }, func(w http.ResponseWriter, req *http.Request) {
			io.Copy(io.Discard, req.Body)
			ended <- true
		})
		c := r.connect()
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf")
		start := time.Now()
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		between(t, start)
		body, _ := io.ReadAll(response.Body)
		if response.StatusCode != 408 || string(body) != "408 Request Timeout\nThe rest of the request did not arrive in time.\n" {
			t.Errorf("%s %q", response.Status, body)
		}
		<-ended
		if got := r.log.String(); strings.Contains(got, "backend") && strings.Contains(got, "level=WARN") {
			t.Errorf("the backend was blamed: %s", got)
		}
	})
}

// TestBrokenBody: a body that cannot be parsed is the client's fault.
func TestBrokenBody(t *testing.T) {
	r := newRig(t, nil, func(w http.ResponseWriter, req *http.Request) { io.Copy(io.Discard, req.Body) })
	response, body := r.raw("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nnot a size\r\n")
	if response.StatusCode != 400 || !response.Close || body != "400 Bad Request\nThe request's body could not be read.\n" {
		t.Errorf("%s %q", response.Status, body)
	}
}

// endless answers without end. It claims to have one, as ReverseProxy flushes
// an answer of unknown length from a second goroutine, whose waiting for a
// mutex would hold up synctest's clock.
func endless(ended chan<- error) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Length", "1000000000000")
		piece := make([]byte, 1<<16)
		for {
			if _, err := w.Write(piece); err != nil {
				ended <- err
				return
			}
		}
	}
}

// TestStalledReader: a client that reads nothing does not hold a request and a
// backend for ever.
func TestStalledReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		r := newMemRig(t, func(c *config.Config) { c.Timeouts.Write = minute }, endless(ended))
		c := r.connect()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		<-ended
		between(t, start)
	})
}

// TestStalledStream: nor does one that stalls one HTTP/2 stream while it keeps
// its connection going.
func TestStalledStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		r := newMemRig(t, func(c *config.Config) { c.Timeouts.Write = minute }, endless(ended))
		raw, err := r.dial(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		config := r.tlsConfig()
		config.NextProtos = []string{"h2"}
		c := tls.Client(raw, config)
		defer raw.Close()
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		reset := make(chan http2.ErrCode, 1)
		framer := http2.NewFramer(c, c)
		io.WriteString(c, http2.ClientPreface)
		framer.WriteSettings()
		go func() { // reads all frames, and never opens the window again
			for {
				frame, err := framer.ReadFrame()
				if err != nil {
					return
				}
				if f, ok := frame.(*http2.RSTStreamFrame); ok {
					reset <- f.ErrCode
				}
			}
		}()
		framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, EndHeaders: true,
			// :method GET, :scheme https, :path /, :authority h (RFC 7541)
			BlockFragment: []byte{0x82, 0x87, 0x84, 0x41, 0x01, 'h'}})
		synctest.Wait()
		start := time.Now()
		<-ended
		between(t, start)
		<-reset
	})
}

// TestIdleAndSlowClients: a connection may be idle for a time, and a header
// has to come within another.
func TestIdleAndSlowClients(t *testing.T) {
	for _, test := range []struct {
		name, send string
		want       time.Duration
	}{
		{"idle", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 3 * time.Minute},
		{"slow header", "GET / HTTP/1.1\r\nHost:", time.Minute},
		{"no header", "", time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newMemRig(t, func(c *config.Config) { c.Timeouts.Idle, c.Timeouts.ReadHeader = 3*minute, minute }, hello)
				c := r.connect()
				start := time.Now()
				io.WriteString(c, test.send)
				if _, err := io.ReadAll(c); err != nil {
					t.Error(err)
				}
				if d := time.Since(start); d != test.want {
					t.Errorf("closed after %v, want %v", d, test.want)
				}
			})
		})
	}
}

// TestDeadlineFromAbove: the closing alert of crypto/tls keeps its own, shorter
// bound.
func TestDeadlineFromAbove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMemRig(t, func(c *config.Config) { c.Timeouts.Write = minute }, hello)
		near, far := net.Pipe()
		defer near.Close()
		c := newConn(r.server, far)
		start := time.Now()
		c.SetWriteDeadline(start.Add(5 * time.Second))
		if _, err := c.Write([]byte("alert")); err == nil || time.Since(start) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		c.SetDeadline(time.Time{})
		start = time.Now()
		if _, err := c.Write([]byte("data")); err == nil {
			t.Error("no error")
		}
		between(t, start)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("second Close: %v", err)
		}
	})
}
