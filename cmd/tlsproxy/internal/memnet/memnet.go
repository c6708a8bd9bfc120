package memnet

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// ErrRefused is the error of dialling a Listener that is down.
var ErrRefused = errors.New("memnet: connection refused")

// Listener is a net.Listener and the way to reach it. It can be taken down and
// brought up again.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	down bool
}

// Listen returns a Listener that is up.
func Listen() *Listener {
	return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept waits for the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and refuses connections from now on.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr names no place.
func (l *Listener) Addr() net.Addr { return address{} }

// SetDown makes Dial fail, or work again.
func (l *Listener) SetDown(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
}

// Dial connects to the Listener.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	l.mu.Lock()
	down := l.down
	l.mu.Unlock()
	if down {
		return nil, ErrRefused
	}
	near, far := pipe()
	select {
	case l.conns <- conn{far}:
		return near, nil
	case <-l.closed:
		return nil, ErrRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// duplex is a connection of two pipes, so that each direction ends by itself.
type duplex struct {
	net.Conn // what is read from
	out      net.Conn
}

// pipe is net.Pipe whose ends have CloseWrite.
func pipe() (a, b *duplex) {
	fromA, toA := net.Pipe()
	fromB, toB := net.Pipe()
	return &duplex{fromA, toB}, &duplex{fromB, toA}
}

func (d *duplex) Write(b []byte) (int, error)         { return d.out.Write(b) }
func (d *duplex) CloseWrite() error                   { return d.out.Close() }
func (d *duplex) SetWriteDeadline(at time.Time) error { return d.out.SetWriteDeadline(at) }

func (d *duplex) SetDeadline(at time.Time) error {
	return errors.Join(d.Conn.SetDeadline(at), d.out.SetDeadline(at))
}

func (d *duplex) Close() error { return errors.Join(d.Conn.Close(), d.out.Close()) }

// conn has an address of the usual form, which net/http wants.
type conn struct{ *duplex }

func (conn) RemoteAddr() net.Addr { return address{} }
func (conn) LocalAddr() net.Addr  { return address{} }

type address struct{}

func (address) Network() string { return "memnet" }
func (address) String() string  { return "192.0.2.1:1234" }
