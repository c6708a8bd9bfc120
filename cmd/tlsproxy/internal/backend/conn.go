package backend

import (
	"errors"
	"net"
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
	heard        *atomic.Bool  // set once something came; nil: nobody asks
	switched     atomic.Bool   // to another protocol, whose waiting others bound
	client       *Client       // that it is kept for; nil: for any

	mu     sync.Mutex
	answer *answer // whose bytes are being waited for
}

// Read reads; its deadline is set by await.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.heard != nil {
		c.heard.Store(true)
	}
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
	if c.client != nil {
		c.client.drop(c)
	}
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
