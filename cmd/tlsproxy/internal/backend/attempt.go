package backend

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxyprotocol"
)

// attempt notes how far one backend's try at a request got.
type attempt struct {
	backend *backend
	request context.Context // of who asked
	ctx     context.Context // of what is sent
	stream  *stream         // nil: HTTP/2 is not spoken
	client  *Client         // that connections are kept for; nil: for any

	mu         sync.Mutex
	conn       *conn // the latest that was used; nil: none
	http2      bool  // spoken on it
	headed     bool  // the request's header was written
	unfinished bool  // the request was not written to its end
}

func newAttempt(b *backend, ctx context.Context, o *Options) *attempt {
	a := &attempt{backend: b, request: ctx, ctx: ctx}
	if o.Proxy != proxyprotocol.None {
		a.client = clientOf(ctx)
	}
	if o.Protocol != HTTP1 {
		a.stream = new(stream)
		a.ctx, a.stream.cancel = context.WithCancelCause(ctx)
	}
	return a
}

// context is that of the request that is sent. Its trace's functions are called
// from several goroutines.
func (a *attempt) context() context.Context {
	return httptrace.WithClientTrace(a.ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.conn, a.http2 = connBeneath(info.Conn, a.backend)
			a.headed, a.unfinished = false, false
		},
		WroteHeaders: func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.headed = true
		},
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.unfinished = info.Err != nil
		},
	})
}

// connBeneath finds our connection in that of a transport, and whether HTTP/2 is
// spoken on it.
func connBeneath(c net.Conn, b *backend) (*conn, bool) {
	if t, ok := c.(*tls.Conn); ok {
		return t.NetConn().(*conn), true
	}
	return c.(*conn), b.main.Protocols.UnencryptedHTTP2()
}

// refused reports whether an attempt that failed after a connection was to be
// had did so without a fault of that connection: the HTTP client found that
// the request cannot be sent. In HTTP/2 a request whose header is out can be
// refused by the backend alone.
func (a *attempt) refused() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.conn == nil:
		return true
	case a.http2:
		return !a.headed && !a.conn.failed.Load()
	}
	return a.unfinished && !a.conn.failed.Load()
}

// enter counts the request in, until leave.
func (a *attempt) enter() {
	a.backend.enter()
	a.client.enter()
}

func (a *attempt) leave() {
	a.backend.leave()
	a.client.leave()
}

// end makes sense of the error that an attempt came to, and lets go of it.
func (a *attempt) end(err error) error {
	if a.stream == nil {
		return err
	}
	return a.stream.end(err)
}

// check returns an error for an answer that HTTP does not know and that net/http lets
// pass, and lets go of it: of a status below 100, and of a switch of protocols that does not
// say to which (RFC 9110, section 15.2.2).
func (a *attempt) check(response *http.Response) error {
	var err error
	switch _, both := response.Body.(io.ReadWriteCloser); {
	case response.StatusCode < http.StatusContinue:
		err = fmt.Errorf("malformed HTTP status code \"%03d\"", response.StatusCode)
	case response.StatusCode == http.StatusSwitchingProtocols && !both:
		err = errors.New("status 101 without the fields Connection: Upgrade and Upgrade")
	default:
		return nil
	}
	response.Body.Close()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.http2 { // another request must not meet what may come behind
		a.conn.Close()
	}
	return err
}

// follow bounds the reading of a response, and counts the backend as busy until
// its body is closed.
func (a *attempt) follow(response *http.Response, timeout time.Duration) {
	a.mu.Lock()
	c, http2 := a.conn, a.http2
	a.mu.Unlock()
	done := func() {
		a.end(nil)
		a.leave()
	}
	switch {
	case response.StatusCode == http.StatusSwitchingProtocols:
		c.release()
		response.Body = &switched{ReadWriteCloser: response.Body.(io.ReadWriteCloser), done: sync.OnceFunc(done)}
	case response.Body == http.NoBody:
		done()
	default:
		body := &answer{ReadCloser: response.Body, backend: a.backend, request: a.request, timeout: timeout, done: done}
		if http2 {
			body.stream = a.stream
		} else {
			body.conn = c
		}
		response.Body = body
	}
}

// answer is the body of an answer. Its reader may take its time, but the
// backend may not while it is being read.
type answer struct {
	io.ReadCloser
	backend *backend
	request context.Context
	timeout time.Duration
	conn    *conn   // of HTTP/1.1
	stream  *stream // of HTTP/2
	closed  sync.Once
	done    func()
}

// Read fails with os.ErrDeadlineExceeded if nothing comes for the time-out, and
// then counts that against the backend.
func (a *answer) Read(p []byte) (int, error) {
	var n int
	var err error
	if a.stream != nil {
		n, err = a.readStream(p)
	} else {
		n, err = a.readConn(p)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		a.backend.failed(err)
	}
	return n, err
}

func (a *answer) readConn(p []byte) (int, error) {
	if a.timeout == 0 {
		return a.ReadCloser.Read(p)
	}
	a.conn.await(a, a.timeout)
	defer a.conn.done(a)
	return a.ReadCloser.Read(p)
}

// readStream returns the error of the request's context once that has ended:
// HTTP/2 has several for a stream that is given up.
func (a *answer) readStream(p []byte) (int, error) {
	if a.timeout > 0 {
		a.stream.await(a.timeout)
	}
	n, err := a.ReadCloser.Read(p)
	a.stream.arrived()
	if err == nil || err == io.EOF {
		return n, err
	}
	if ended := a.request.Err(); ended != nil {
		return n, ended
	}
	return n, a.stream.explain(err)
}

// Close ends the request.
func (a *answer) Close() error {
	err := a.ReadCloser.Close()
	a.closed.Do(a.done)
	return err
}

// switched is a connection to a backend after a switch of protocols.
type switched struct {
	io.ReadWriteCloser
	done func()
}

// CloseWrite ends the direction to the backend.
func (s *switched) CloseWrite() error {
	half, ok := s.ReadWriteCloser.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

func (s *switched) Close() error {
	err := s.ReadWriteCloser.Close()
	s.done()
	return err
}

// streamError is the form of net/http's error for a stream of HTTP/2 that was
// reset; net/http fills in any struct that has these fields.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return fmt.Sprintf("stream reset with code %d", e.Code) }

// isProtocolError reports whether a backend of HTTP/2 found a request malformed.
// net/http checks most of what a client can put into one, but not what trailers
// hold.
func isProtocolError(err error) bool {
	const protocolError = 1 // RFC 9113, section 7
	var reset streamError
	return errors.As(err, &reset) && reset.Code == protocolError
}
