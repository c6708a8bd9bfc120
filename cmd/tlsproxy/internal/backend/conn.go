package backend

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// conn is a connection to a backend. It bounds how long a write may block, and
// remembers whether it failed: a request that comes to nothing on a connection
// that works was refused by the HTTP client here, not by the backend.
type conn struct {
	net.Conn
	writeTimeout time.Duration // 0: none
	closed       atomic.Bool   // by us
	failed       atomic.Bool   // by the other side, or by a deadline
	switched     atomic.Bool   // to another protocol, whose waiting others bound

	mu     sync.Mutex
	answer *answer // whose bytes are being waited for
}

// Read reads; its deadline is set by await.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.note(err)
	return n, err
}

// Write fails if the backend does not take the bytes within the time-out.
func (c *conn) Write(b []byte) (int, error) {
	if c.writeTimeout > 0 && !c.switched.Load() {
		c.Conn.SetWriteDeadline(time.Now().Add(c.writeTimeout))
	}
	n, err := c.Conn.Write(b)
	c.note(err)
	return n, err
}

func (c *conn) note(err error) {
	if err != nil && !c.closed.Load() {
		c.failed.Store(true)
	}
}

// Close closes the connection. What fails from now on is no fault of the backend.
func (c *conn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

// CloseWrite ends this direction, as upgraded connections do.
func (c *conn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// release gives the connection over to another protocol, without deadlines.
func (c *conn) release() {
	c.switched.Store(true)
	c.Conn.SetDeadline(time.Time{})
}

// await sets the deadline for the next bytes of an answer, and done removes it.
// By then the connection can be waiting for the bytes of another answer, if
// this one was read to its end: that one's deadline stays.
func (c *conn) await(a *answer, timeout time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = a
	c.Conn.SetReadDeadline(time.Now().Add(timeout))
}

func (c *conn) done(a *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answer == a {
		c.answer = nil
		c.Conn.SetReadDeadline(time.Time{})
	}
}

// answer is the body of an answer. Its reader may take its time, but the
// backend may not while it is being read.
type answer struct {
	io.ReadCloser
	conn    *conn
	backend *backend
	timeout time.Duration
}

// Read fails with os.ErrDeadlineExceeded if nothing comes for the time-out, and
// then counts that against the backend.
func (a *answer) Read(p []byte) (int, error) {
	a.conn.await(a, a.timeout)
	n, err := a.ReadCloser.Read(p)
	a.conn.done(a)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		a.backend.failed(err)
	}
	return n, err
}

// attempt notes how far one backend's try at a request got.
type attempt struct {
	mu         sync.Mutex
	conn       *conn // the latest that was used; nil: none
	unfinished bool  // the request was not written to its end
}

// trace follows an attempt; its functions are called from several goroutines.
func (a *attempt) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.conn, a.unfinished = info.Conn.(*conn), false
		},
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.unfinished = info.Err != nil
		},
	}
}

// refused reports whether an attempt that failed after a connection was to be
// had did so without a fault of that connection: the HTTP client found that
// the request cannot be sent.
func (a *attempt) refused() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.conn == nil || a.unfinished && !a.conn.failed.Load()
}

// watch bounds the reading of a response.
func (a *attempt) watch(b *backend, response *http.Response, timeout time.Duration) {
	a.mu.Lock()
	c := a.conn
	a.mu.Unlock()
	switch {
	case response.StatusCode == http.StatusSwitchingProtocols:
		c.release()
	case timeout > 0 && response.Body != http.NoBody:
		response.Body = &answer{response.Body, c, b, timeout}
	}
}
