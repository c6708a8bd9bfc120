package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/ctrutls/ctrutls/interop/internal/outcome"
)

// listening is the first line of the output.
type listening struct {
	Event   string `json:"event"`
	Address string `json:"address"`
	PID     int    `json:"pid"`
}

// handshake is the line for each handshake.
type handshake struct {
	Event  string `json:"event"`
	Remote string `json:"remote"`
	outcome.Handshake
}

// server accepts, does the handshakes itself, so as to tell of the failed ones
// too, and hands what comes through to an echo or to net/http.
type server struct {
	*options
	tls  *tls.Config
	web  *http.Server
	door *door

	mu    sync.Mutex // of out
	out   *json.Encoder
	slots chan struct{} // one for each connection
	conns sync.WaitGroup
}

func newServer(o *options, cfg *tls.Config, stdout io.Writer) *server {
	s := &server{options: o, tls: cfg, out: json.NewEncoder(stdout), slots: make(chan struct{}, o.Connections)}
	s.web = &http.Server{
		Handler:           http.HandlerFunc(describe),
		TLSConfig:         cfg.Clone(), // its NextProtos tell net/http about HTTP/2, and net/http changes it
		ReadHeaderTimeout: o.Timeout,
		ReadTimeout:       o.Timeout,
		WriteTimeout:      o.Timeout,
		IdleTimeout:       o.Timeout,
		MaxHeaderBytes:    1 << 16,
	}
	return s
}

// run serves until ctx ends, then closes every connection.
func (s *server) run(ctx context.Context, listener net.Listener) {
	s.door = &door{addr: listener.Addr(), conns: make(chan net.Conn), closed: make(chan struct{})}
	var loops sync.WaitGroup
	loops.Go(func() { s.web.Serve(s.door) })
	loops.Go(func() { s.accept(ctx, listener) })
	s.print(&listening{"listening", listener.Addr().String(), os.Getpid()})
	<-ctx.Done()
	listener.Close()
	s.web.Close()
	loops.Wait()
	s.conns.Wait()
}

func (s *server) print(line any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Encode(line)
}

func (s *server) accept(ctx context.Context, listener net.Listener) {
	for {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of files: those in use have to end first
			<-s.slots
			time.Sleep(10 * time.Millisecond)
			continue
		}
		s.conns.Go(func() { s.serve(ctx, &slotConn{Conn: conn, slots: s.slots}) })
	}
}

// serve carries one connection through its handshake and hands it on.
func (s *server) serve(ctx context.Context, raw net.Conn) {
	conn := tls.Server(raw, s.tls)
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	within, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	line := &handshake{Event: "handshake", Remote: raw.RemoteAddr().String()}
	start := time.Now()
	err := conn.HandshakeContext(within)
	line.HandshakeMS = float64(time.Since(start).Microseconds()) / 1000
	line.Fill(conn.ConnectionState())
	line.Failure = outcome.FailureOf(err)
	s.print(line)
	switch {
	case err != nil:
		raw.Close()
	case s.Echo:
		s.echo(conn)
	default:
		s.door.hand(conn)
	}
}

// echo sends back what arrives until the client has no more to say.
func (s *server) echo(conn *tls.Conn) {
	defer conn.Close()
	buf := make([]byte, 1<<14)
	for {
		conn.SetDeadline(time.Now().Add(s.Timeout))
		n, err := conn.Read(buf)
		if err != nil && n == 0 {
			return
		}
		if _, err := conn.Write(buf[:n]); err != nil {
			return
		}
	}
}

// answer is what HTTP requests are answered with.
type answer struct {
	Proto string `json:"proto"`
	Path  string `json:"path"`
	outcome.Handshake
}

func describe(w http.ResponseWriter, r *http.Request) {
	a := &answer{Proto: r.Proto, Path: r.URL.Path}
	a.Fill(*r.TLS)
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(a)
}

// door hands connections to net/http as its listener.
type door struct {
	addr   net.Addr
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (d *door) hand(conn net.Conn) {
	select {
	case d.conns <- conn:
	case <-d.closed:
		conn.Close()
	}
}

func (d *door) Accept() (net.Conn, error) {
	select {
	case conn := <-d.conns:
		return conn, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

func (d *door) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

func (d *door) Addr() net.Addr { return d.addr }

// slotConn gives its slot back when it is closed.
type slotConn struct {
	net.Conn
	once  sync.Once
	slots chan struct{}
}

func (c *slotConn) Close() error {
	c.once.Do(func() { <-c.slots })
	return c.Conn.Close()
}
