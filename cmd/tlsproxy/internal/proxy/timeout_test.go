package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
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
// time-out each time, and what the backend does between and after is no part of
// that time.
func TestSlowBody(t *testing.T) {
	forBoth(t, func(t *testing.T, http2 bool) {
		synctest.Test(t, func(t *testing.T) {
			r := newMemRig(t, func(c *config.Config) { c.Timeouts.ReadBody, c.Timeouts.BackendResponse = minute, 0 }, func(w http.ResponseWriter, req *http.Request) {
				n, err := io.Copy(io.Discard, req.Body)
				if err != nil {
					t.Error(err)
				}
				time.Sleep(5 * time.Minute)
				if req.Context().Err() != nil {
					t.Error("the request was cut off after its body")
				}
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

// TestSlowlyTakenBody: a backend may pause in the middle of a body for longer
// than the client may.
func TestSlowlyTakenBody(t *testing.T) {
	forBoth(t, func(t *testing.T, http2 bool) {
		synctest.Test(t, func(t *testing.T) {
			const size = 4 << 20 // more than the buffers on the way hold
			r := newMemRig(t, func(c *config.Config) { c.Timeouts.ReadBody = minute / 4 }, func(w http.ResponseWriter, req *http.Request) {
				first, err := io.ReadFull(req.Body, make([]byte, 100))
				if err != nil {
					t.Error(err)
				}
				time.Sleep(45 * time.Second)
				rest, err := io.Copy(io.Discard, req.Body)
				if err != nil {
					t.Error(err)
				}
				fmt.Fprint(w, first+int(rest))
			})
			response, err := r.client(http2).Post("https://front.example/", "text/plain", strings.NewReader(strings.Repeat("x", size)))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if got, err := io.ReadAll(response.Body); string(got) != fmt.Sprint(size) || err != nil {
				t.Errorf("%s, %q, %v", response.Status, got, err)
			}
		})
	})
}

// TestSlowAnswer: a backend may pause in the middle of an answer for longer
// than a client may take none of it.
func TestSlowAnswer(t *testing.T) {
	forBoth(t, func(t *testing.T, http2 bool) {
		synctest.Test(t, func(t *testing.T) {
			r := newMemRig(t, func(c *config.Config) { c.Timeouts.Write = minute }, func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("Content-Length", "2") // see endless
				io.WriteString(w, "x")
				http.NewResponseController(w).Flush()
				time.Sleep(5 * time.Minute)
				io.WriteString(w, "x")
			})
			response, err := r.client(http2).Get("https://front.example/")
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if got, err := io.ReadAll(response.Body); string(got) != "xx" || err != nil {
				t.Errorf("%q, %v", got, err)
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
		io.Copy(io.Discard, c)  // the connection is closed too
		time.Sleep(time.Second) // net/http lingers
		if got := r.log.String(); strings.Contains(got, "backend") && strings.Contains(got, "level=WARN") {
			t.Errorf("the backend was blamed: %s", got)
		}
	})
}

// TestStalledRest: what a client still owes when its request comes to nothing is
// waited for once, and no longer than any other piece.
func TestStalledRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMemRig(t, func(c *config.Config) { c.Timeouts.ReadBody = minute }, hello)
		r.back.SetDown(true)
		c := r.connect()
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf")
		start := time.Now()
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if d := time.Since(start); d > time.Minute {
			t.Errorf("%s after %v", response.Status, d)
		}
		io.Copy(io.Discard, c)
		if d := time.Since(start); d > 2*time.Minute {
			t.Errorf("closed after %v", d)
		}
		time.Sleep(time.Second) // net/http lingers
		if n := underWay(r.server); n != 0 {
			t.Errorf("%d requests live on", n)
		}
	})
}

// TestEarlyAnswer: an answer that does not wait for the request's body arrives
// whole, and what a client sends after the time for the rest is up is not taken for
// another request.
func TestEarlyAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		var seen atomic.Int64
		r := newMemRig(t, func(c *config.Config) { c.Timeouts.ReadBody = minute }, func(w http.ResponseWriter, req *http.Request) {
			seen.Add(1)
			http.NewResponseController(w).EnableFullDuplex()
			io.WriteString(w, strings.Repeat("x", size))
		})
		c := r.connect()
		io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf")
		start := time.Now()
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(response.Body); len(got) != size || err != nil || !response.Close || time.Since(start) > time.Minute/2 {
			t.Errorf("%d bytes, %v, close %v, after %v", len(got), err, response.Close, time.Since(start))
		}
		time.Sleep(2 * time.Minute)
		io.WriteString(c, "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")
		if rest, _ := io.ReadAll(c); len(rest) > 0 || seen.Load() != 1 {
			t.Errorf("%d bytes follow, %d requests", len(rest), seen.Load())
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

// TestStalledUpload: a backend that takes nothing of a body does not hold the
// request for ever, even if the client is gone and nobody reads from it.
func TestStalledUpload(t *testing.T) {
	forBoth(t, func(t *testing.T, http2 bool) {
		synctest.Test(t, func(t *testing.T) {
			blocked := make(chan struct{})
			r := newMemRig(t, func(c *config.Config) { c.Timeouts.BackendWrite = minute }, func(w http.ResponseWriter, req *http.Request) { <-blocked })
			defer func() { close(blocked); time.Sleep(time.Second) }() // net/http lingers
			start := time.Now()
			response, err := r.client(http2).Post("https://front.example/", "text/plain", strings.NewReader(strings.Repeat("x", 4<<20)))
			if err != nil {
				t.Fatal(err)
			}
			between(t, start)
			body, _ := io.ReadAll(response.Body)
			response.Body.Close()
			if response.StatusCode != 504 || string(body) != "504 Gateway Timeout\nThe backend did not answer in time.\n" {
				t.Errorf("%s %q", response.Status, body)
			}
			c := r.connect()
			go func() {
				io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4194304\r\n\r\n")
				c.Write(make([]byte, 4<<20))
			}()
			time.Sleep(time.Second)
			c.NetConn().Close()
			time.Sleep(time.Minute)
			synctest.Wait()
			if st := underWay(r.server); st != 0 {
				t.Errorf("%d requests live on", st)
			}
		})
	})
}

// underWay counts the requests that have not ended.
func underWay(s *Server) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
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
		framer := r.framer()
		reset := make(chan http2.ErrCode, 1)
		go readUntilReset(framer, reset)
		get(framer)
		synctest.Wait()
		start := time.Now()
		<-ended
		between(t, start)
		<-reset
	})
}

// TestStalledEnd: the last bytes of an answer, which are sent after the handler
// has returned, are bounded too.
func TestStalledEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMemRig(t, func(c *config.Config) { c.Timeouts.Write = minute }, hello)
		framer := r.framer(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		reset := make(chan http2.ErrCode, 1)
		go readUntilReset(framer, reset)
		synctest.Wait()
		start := time.Now()
		get(framer)
		<-reset
		between(t, start)
	})
}

// framer makes a connection that speaks HTTP/2.
func (r *rig) framer(settings ...http2.Setting) *http2.Framer {
	r.t.Helper()
	raw, err := r.dial(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { raw.Close() })
	config := r.tlsConfig()
	config.NextProtos = []string{"h2"}
	c := tls.Client(raw, config)
	if err := c.Handshake(); err != nil {
		r.t.Fatal(err)
	}
	io.WriteString(c, http2.ClientPreface)
	framer := http2.NewFramer(c, c)
	framer.WriteSettings(settings...)
	return framer
}

// get sends the request of a stream of its own.
func get(framer *http2.Framer) {
	framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndStream: true, EndHeaders: true,
		// :method GET, :scheme https, :path /, :authority h (RFC 7541)
		BlockFragment: []byte{0x82, 0x87, 0x84, 0x41, 0x01, 'h'}})
}

// readUntilReset reads all frames, and never opens a window.
func readUntilReset(framer *http2.Framer, reset chan<- http2.ErrCode) {
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return
		}
		if f, ok := frame.(*http2.RSTStreamFrame); ok {
			reset <- f.ErrCode
		}
	}
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

// deadlineWriter notes the deadline for reading that is in force.
type deadlineWriter struct {
	http.ResponseWriter
	mu       sync.Mutex
	deadline time.Time
}

func (w *deadlineWriter) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	return nil
}

// TestNoDeadlineIsLeft: after the end of a request no deadline is left over HTTP/2, also
// if a read is still under way: on a stream that is closed it would keep the connection in
// memory. Over HTTP/1.1 there is one, for the rest of a body that net/http reads, unless
// the client is gone and nothing reads.
func TestNoDeadlineIsLeft(t *testing.T) {
	for _, test := range []struct{ http1, over, reading, left bool }{
		{http1: true, left: true}, {http1: true, reading: true, left: true}, {http1: true, over: true}, {http1: true, over: true, reading: true, left: true},
		{}, {reading: true}, {over: true}, {over: true, reading: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			in, out := io.Pipe()
			w := new(deadlineWriter)
			b := &requestBody{ReadCloser: in, control: http.NewResponseController(w), timeout: time.Minute, http1: test.http1}
			go io.WriteString(out, "first")
			if _, err := b.Read(make([]byte, 5)); err != nil || !w.deadline.IsZero() {
				t.Fatalf("after a read: %v, %v", w.deadline, err)
			}
			read := make(chan error, 1)
			if test.reading {
				go func() {
					_, err := b.Read(make([]byte, 1))
					read <- err
				}()
				synctest.Wait()
			}
			b.finish(test.over)
			out.CloseWithError(io.ErrUnexpectedEOF)
			if test.reading {
				<-read
			}
			if _, err := b.Read(make([]byte, 1)); err == nil {
				t.Error("read after the end")
			}
			if w.deadline.IsZero() == test.left {
				t.Errorf("%+v: the deadline is %v", test, w.deadline)
			}
		})
	}
}
