package proxy

import (
	"bufio"
	"net"
	"sync/atomic"
	"time"
)

// tunnel is a client's connection after a switch of protocols. It ends when
// nothing was read or written for a time.
type tunnel struct {
	net.Conn
	ahead   *bufio.Reader // read by the HTTP server, not by it used; nil: none
	timeout time.Duration // 0: none
	idle    *time.Timer
	closed  atomic.Bool

	read, written atomic.Int64 // bytes
}

// newTunnel returns a tunnel that is closed when it was idle for the time-out;
// ended is called then, to end what waits for the backend.
func newTunnel(c net.Conn, ahead *bufio.Reader, timeout time.Duration, ended func()) *tunnel {
	t := &tunnel{Conn: c, ahead: ahead, timeout: timeout}
	if timeout > 0 {
		t.idle = time.AfterFunc(timeout, func() {
			ended()
			c.Close()
		})
	}
	return t
}

// Read returns what the client sent ahead, then what it sends.
func (t *tunnel) Read(b []byte) (int, error) {
	if t.ahead != nil && t.ahead.Buffered() > 0 {
		n, err := t.ahead.Read(b[:min(t.ahead.Buffered(), len(b))])
		t.read.Add(int64(n))
		return n, err
	}
	n, err := t.Conn.Read(b)
	t.read.Add(int64(n))
	t.used(n)
	return n, err
}

func (t *tunnel) Write(b []byte) (int, error) {
	n, err := t.Conn.Write(b)
	t.written.Add(int64(n))
	t.used(n)
	return n, err
}

// used begins the time anew. The timer of a tunnel that is closed, maybe meanwhile, would
// keep it in memory until it ran out.
func (t *tunnel) used(n int) {
	if t.idle == nil || n == 0 {
		return
	}
	t.idle.Reset(t.timeout)
	if t.closed.Load() {
		t.idle.Stop()
	}
}

// CloseWrite passes on that the backend sends no more; the client still may.
func (t *tunnel) CloseWrite() error { return t.Conn.(halfCloser).CloseWrite() }

// Close ends both directions.
func (t *tunnel) Close() error {
	t.closed.Store(true)
	if t.idle != nil {
		t.idle.Stop()
	}
	return t.Conn.Close()
}
