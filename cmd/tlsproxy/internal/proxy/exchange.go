package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/accesslog"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/tracing"
)

// exchange is one request's http.ResponseWriter and what is noted about it.
type exchange struct {
	http.ResponseWriter
	control *http.ResponseController
	request context.Context
	server  *Server
	conn    *conn
	start   time.Time
	body    *requestBody // nil if the request has none
	http1   bool

	streamTimeout time.Duration // of a write to an HTTP/2 stream; 0: none
	tunnelTimeout time.Duration // without traffic once the connection is upgraded; 0: none

	status   int // 0: none sent yet
	written  int64
	buffered int // of what was written, at most
	route    string
	pool     *backend.Pool // nil: not found yet
	backend  string
	trace    *tracing.Request // nil: none
	answered time.Duration    // how long the pool took
	hijacked bool
	tunnel   *tunnel            // once hijacked
	cancel   context.CancelFunc // ends the backend's side after a switch of protocols
	switched io.Closer          // the backend's side itself; nil: it did not switch
	broken   error              // of reading the answer's body; nil: none
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

func newExchange(s *Server, timeouts config.Timeouts, w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{ResponseWriter: w, control: http.NewResponseController(w), request: r.Context(), server: s, conn: connOf(r.Context()), start: time.Now(), http1: r.ProtoMajor == 1, tunnelTimeout: time.Duration(timeouts.Tunnel)}
	if r.Body != nil && r.Body != http.NoBody {
		x.body = &requestBody{ReadCloser: r.Body, control: x.control, timeout: time.Duration(timeouts.ReadBody), http1: x.http1, trailer: r.Trailer}
	}
	if r.ProtoMajor == 2 {
		x.streamTimeout = time.Duration(timeouts.Write)
	}
	return x
}

// finish ends the exchange's hold on the connection. What is still buffered is
// sent once the handler has returned, and bounded like any other write. A stream
// of HTTP/2 that is closed already gets no deadline: nobody would take the timer
// away, which keeps the whole connection in memory until it runs out.
func (x *exchange) finish() {
	over := x.request.Err() != nil
	if x.body != nil {
		x.body.finish(over)
	}
	if !over && x.buffered > 0 {
		x.armStream()
	}
}

// answerBody is an answer's body whose exchange is told how reading it fails.
type answerBody struct {
	io.ReadCloser
	x *exchange
}

func (b answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.x.broken = err
	}
	return n, err
}

// closeSwitched gives up a backend's connection that has switched protocols. ReverseProxy
// does so, but for one that has switched to another than the client asked for.
func (x *exchange) closeSwitched() {
	if x.switched != nil {
		x.switched.Close()
	}
}

// streamBuffer is how much of an answer net/http holds back on a stream of
// HTTP/2.
const streamBuffer = 4 << 10

// breakOff sends what there is of an answer over HTTP/1, and closes the connection
// beneath TLS. net/http would say close_notify as well, which is the sign that an answer
// was whole where it lasts until the connection ends, as it can for HTTP/1.0 (RFC 9112,
// section 9.8).
func (x *exchange) breakOff() {
	if !x.http1 {
		return // the stream is reset
	}
	if x.status != 0 && !x.hijacked {
		x.control.Flush()
	}
	x.conn.Close()
}

// Unwrap lets http.ResponseController reach the writer beneath.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader notes the status. A backend may answer before it has all of the
// request: net/http would read the rest itself before it sends the answer's header,
// away from the backend, and close the body under the transport that sends it
// there. The connection then serves no other request: the rest may never come, and
// what comes instead must not be taken for the next one.
func (x *exchange) WriteHeader(status int) {
	if status >= http.StatusOK {
		x.status = status
		if x.body != nil && x.http1 && !x.body.read() {
			x.control.EnableFullDuplex()
			x.Header().Set("Connection", "close")
		}
		x.sayLast()
		x.guessNothing()
		if status == http.StatusNoContent { // RFC 9110, section 8.6; clients of HTTP/2 would miss the bytes
			x.Header().Del("Content-Length")
		}
	}
	x.ResponseWriter.WriteHeader(status)
}

// guessNothing leaves an answer without a type where the backend has told none. net/http
// would guess one of its first bytes: text/html for what somebody has uploaded, perhaps.
func (x *exchange) guessNothing() {
	const name = "Content-Type"
	if h := x.Header(); h[name] == nil {
		h[name] = nil
	}
}

// sayLast tells the client if this is its connection's last answer.
func (x *exchange) sayLast() {
	if x.server.leaving.Load() || x.conn.isOver() {
		x.Header().Set("Connection", "close") // over HTTP/2 net/http makes GOAWAY of it
	}
}

// Write counts the bytes.
func (x *exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	if x.buffered += len(b); x.buffered > streamBuffer {
		x.buffered = streamBuffer // at most, and the next write cannot be sure of room
		x.armStream()
		defer x.disarmStream()
	}
	n, err := x.ResponseWriter.Write(b)
	x.written += int64(n)
	return n, err
}

// FlushError sends what is buffered; http.ResponseController calls it.
func (x *exchange) FlushError() error {
	x.buffered = 0
	x.armStream()
	defer x.disarmStream()
	return x.control.Flush()
}

// armStream bounds how long an HTTP/2 stream may wait for its client to let
// more bytes come. The connection as a whole is bounded by conn, but a client
// can hold up one stream of it.
func (x *exchange) armStream() {
	if x.streamTimeout > 0 {
		x.control.SetWriteDeadline(time.Now().Add(x.streamTimeout))
	}
}

// disarmStream is called after each write: at its deadline net/http resets a
// stream even if nothing waits to be written, as while the backend pauses.
func (x *exchange) disarmStream() {
	if x.streamTimeout > 0 {
		x.control.SetWriteDeadline(time.Time{})
	}
}

// errorPage answers with a status and a sentence.
func (x *exchange) errorPage(status int, text string) {
	h := x.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	x.sayLast()
	x.status = status
	x.ResponseWriter.WriteHeader(status) // net/http reads what is left of the body, within bounds
	fmt.Fprintf(x, "%d %s\n%s\n", status, http.StatusText(status), text)
}

// record describes the exchange for the log.
func (x *exchange) record(r *http.Request) *accesslog.Request {
	record := &accesslog.Request{Client: x.conn.client(r.TLS), Proto: r.Proto, Method: r.Method, Host: r.Host, Path: r.URL.Path,
		Status: x.status, Sent: x.written, Duration: time.Since(x.start), Route: x.route, Backend: x.backend, Answered: x.answered, TraceID: x.trace.ID()}
	if x.pool != nil {
		record.Pool = x.pool.Name()
	}
	if x.body != nil {
		record.Received = x.body.received.Load()
	}
	if x.tunnel != nil {
		record.Received, record.Sent = x.tunnel.read.Load(), x.tunnel.written.Load()
	}
	return record
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
	x.tunnel = newTunnel(unannounced{c.(halfCloser), x.conn}, rw.Reader, x.tunnelTimeout, x.cancel)
	return x.tunnel, rw, nil
}

// requestBody bounds how long the next bytes of a body may take to come. The
// bound is in force only while they are waited for: between two reads it is the
// backend that takes its time.
type requestBody struct {
	io.ReadCloser
	control *http.ResponseController
	timeout time.Duration // 0: none
	http1   bool
	trailer http.Header // filled in with the body's end; nil: none is announced

	received atomic.Int64 // bytes

	mu       sync.Mutex
	deadline time.Time // of the read under way; zero if there is none
	expired  bool      // a read met its deadline
	ended    bool      // the body was read to its end
	finished bool
}

// Read fails with os.ErrDeadlineExceeded if no byte comes for the time-out.
func (b *requestBody) Read(p []byte) (int, error) {
	if !b.arm() {
		return 0, errors.New("proxy: read of a body after the end of its request")
	}
	n, err := b.ReadCloser.Read(p)
	b.disarm(err)
	if err == io.EOF {
		dropVouched(b.trailer)
	}
	b.received.Add(int64(n))
	return n, err
}

// Close can read too: net/http skips a part of what is left.
func (b *requestBody) Close() error {
	if !b.arm() {
		return nil // the server closes it
	}
	err := b.ReadCloser.Close()
	b.disarm(err)
	return err
}

// arm reports false once the request is finished: the connection is then
// another request's.
func (b *requestBody) arm() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.finished {
		return false
	}
	b.setDeadline()
	return true
}

// setDeadline gives the next bytes the whole time-out. A client that let it pass
// gets no other. b.mu is held.
func (b *requestBody) setDeadline() {
	if b.timeout > 0 && !b.expired {
		b.deadline = time.Now().Add(b.timeout)
		b.control.SetReadDeadline(b.deadline)
	}
}

// disarm notes how a read ended. It leaves the deadline alone that was met, so
// that nobody waits again, and that of a finished request.
func (b *requestBody) disarm(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expired = b.expired || errors.Is(err, os.ErrDeadlineExceeded)
	b.ended = b.ended || err == io.EOF
	if b.timeout > 0 && !b.finished && !b.expired {
		b.deadline = time.Time{}
		b.control.SetReadDeadline(time.Time{})
	}
}

// read reports whether the body was read to its end.
func (b *requestBody) read() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}

// timedOut reports whether the body was waited for until the deadline, also if
// the read that did so has yet to return.
func (b *requestBody) timedOut() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.expired || !b.deadline.IsZero() && !time.Now().Before(b.deadline)
}

// finish is called when the request has been answered. Over HTTP/1.1 the server may
// read what is left of the body, for which a deadline stays behind, and sets its own
// afterwards; not so if the request is over, its client gone. Over HTTP/2 it does
// not, and a read that is still under way may have set the deadline of a stream that
// is closed: nobody else would take that timer away, which keeps the whole connection
// in memory until it runs out.
func (b *requestBody) finish(over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finished = true
	switch {
	case b.http1 && !b.ended && !over:
		b.setDeadline()
	case !b.http1 && !b.deadline.IsZero():
		b.control.SetReadDeadline(time.Time{})
	}
}
