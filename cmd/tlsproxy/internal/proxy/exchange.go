package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logging"
)

// exchange is one request's http.ResponseWriter and what is noted about it.
type exchange struct {
	http.ResponseWriter
	control *http.ResponseController
	server  *Server
	start   time.Time
	body    *requestBody // nil if the request has none

	streamTimeout time.Duration // of writes to an HTTP/2 stream; 0: none
	streamArmed   time.Time

	status   int // 0: none sent yet
	written  int64
	backend  string
	hijacked bool
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

func newExchange(s *Server, w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{ResponseWriter: w, control: http.NewResponseController(w), server: s, start: time.Now()}
	if r.Body != nil && r.Body != http.NoBody {
		x.body = &requestBody{ReadCloser: r.Body, control: x.control, timeout: time.Duration(s.timeouts.ReadBody)}
	}
	if r.ProtoMajor == 2 {
		x.streamTimeout = time.Duration(s.timeouts.Write)
	}
	return x
}

// finish ends the exchange's hold on the connection.
func (x *exchange) finish() {
	if x.body != nil {
		x.body.finish()
	}
}

// Unwrap lets http.ResponseController reach the writer beneath.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader notes the status.
func (x *exchange) WriteHeader(status int) {
	if status >= http.StatusOK {
		x.status = status
	}
	x.armStream()
	x.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes.
func (x *exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	x.armStream()
	n, err := x.ResponseWriter.Write(b)
	x.written += int64(n)
	return n, err
}

// armStream bounds how long an HTTP/2 stream may wait for its client to let
// more bytes come. The connection as a whole is bounded by conn, but a client
// can hold up one stream of it. Like conn.armWrite it grants up to a quarter
// more.
func (x *exchange) armStream() {
	if x.streamTimeout == 0 {
		return
	}
	if now := time.Now(); now.Sub(x.streamArmed) > x.streamTimeout/4 {
		x.streamArmed = now
		x.control.SetWriteDeadline(now.Add(x.streamTimeout + x.streamTimeout/4))
	}
}

// errorPage answers with a status and a sentence.
func (x *exchange) errorPage(status int, text string) {
	h := x.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	x.WriteHeader(status)
	fmt.Fprintf(x, "%d %s\n%s\n", status, http.StatusText(status), text)
}

// requestAttrs name a request in the log.
func (x *exchange) requestAttrs(r *http.Request) []slog.Attr {
	return []slog.Attr{
		slog.String("remote", r.RemoteAddr),
		slog.String("proto", r.Proto),
		slog.String("method", logging.Peer(r.Method, 32)),
		slog.String("host", logging.Peer(r.Host, maxLoggedName)),
		slog.String("path", logging.Peer(r.URL.Path, 1024)),
	}
}

// Hijack gives the connection to the copying of a protocol that was switched
// to. Bytes that the client sent ahead are read first: ReverseProxy reads from
// the connection alone and would lose them.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := x.control.Hijack()
	if err != nil {
		return nil, nil, err
	}
	x.hijacked = true
	x.status = http.StatusSwitchingProtocols
	return newTunnel(c, rw.Reader, time.Duration(x.server.timeouts.Tunnel)), rw, nil
}

// requestBody bounds how long the next bytes of a body may take to come.
type requestBody struct {
	io.ReadCloser
	control *http.ResponseController
	timeout time.Duration // 0: none

	mu       sync.Mutex
	armed    time.Time
	finished bool
}

// Read fails with os.ErrDeadlineExceeded if no byte comes for about the
// time-out.
func (b *requestBody) Read(p []byte) (int, error) {
	if !b.arm() {
		return 0, errors.New("proxy: read of a body after the end of its request")
	}
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.disarm() // the connection is now read to see whether the client goes away
	}
	return n, err
}

// arm moves the deadline on, once in a quarter of the time-out at most. It
// reports false once the request is finished: the connection is then another
// request's.
func (b *requestBody) arm() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.finished {
		return false
	}
	if now := time.Now(); b.timeout > 0 && now.Sub(b.armed) > b.timeout/4 {
		b.armed = now
		b.control.SetReadDeadline(b.deadline())
	}
	return true
}

// deadline is the one set when the body was armed; b.mu is held.
func (b *requestBody) deadline() time.Time { return b.armed.Add(b.timeout + b.timeout/4) }

// timedOut reports whether the body's end was waited for until the deadline.
func (b *requestBody) timedOut() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.armed.IsZero() && !time.Now().Before(b.deadline())
}

func (b *requestBody) disarm() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.finished && !b.armed.IsZero() {
		b.armed = time.Time{}
		b.control.SetReadDeadline(time.Time{})
	}
}

// finish is called when the request is over. It leaves the deadline as it is:
// the server may read what is left of the body, and sets its own afterwards.
func (b *requestBody) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finished = true
}
