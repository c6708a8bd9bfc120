package loadgen

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
)

// Client makes load. Its methods are called one at a time.
type Client struct {
	load    Load
	config  *tls.Config
	dialers []*net.Dialer
	targets []*target
	next    atomic.Uint64 // connection
	header  string        // of each request
}

// target is one of the addresses, with its session where sessions are resumed.
type target struct {
	address string
	config  *tls.Config
}

// New returns a Client, or an error that says what of l is not possible.
func New(l Load) (*Client, error) {
	if err := l.validate(); err != nil {
		return nil, err
	}
	if err := groups.RequireHook([]tls.CurveID{l.Group}); err != nil {
		return nil, fmt.Errorf("loadgen: %w", err)
	}
	verify, err := l.verifier()
	if err != nil {
		return nil, err
	}
	sources, err := l.sources()
	if err != nil {
		return nil, err
	}
	c := &Client{load: l.clone(), config: &tls.Config{
		ServerName:         l.ServerName,
		MinVersion:         tls.VersionTLS13,
		CurvePreferences:   []tls.CurveID{l.Group},
		InsecureSkipVerify: true, // verify does it
		VerifyConnection:   verify,
	}}
	for _, s := range sources {
		c.dialers = append(c.dialers, &net.Dialer{LocalAddr: s, Control: bindWithoutPort})
	}
	if len(c.dialers) == 0 {
		c.dialers = []*net.Dialer{{}}
	}
	for _, a := range l.Addresses {
		c.targets = append(c.targets, &target{address: a, config: c.config})
	}
	path := l.Path
	if path == "" {
		path = "/"
	}
	host := l.ServerName
	if host == "" {
		host = l.Addresses[0]
	}
	c.header = "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n"
	return c, nil
}

// Prepare gets the sessions that Run resumes, one of each address.
func (c *Client) Prepare(ctx context.Context) error {
	if !c.load.Resume {
		return nil
	}
	for i, t := range c.targets {
		s := newSession()
		t.config = c.config.Clone()
		t.config.ClientSessionCache = s
		if err := c.begin(ctx, c.dialers[i%len(c.dialers)], t, s); err != nil {
			return fmt.Errorf("loadgen: getting a session of %s to resume: %w", t.address, err)
		}
	}
	return nil
}

// begin makes a full handshake and waits for the server's ticket, which comes after it.
func (c *Client) begin(ctx context.Context, dialer *net.Dialer, t *target, s *session) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	conn, err := c.connect(ctx, dialer, t)
	if err != nil {
		return err
	}
	received := make(chan error, 1)
	go func() {
		_, err := conn.Read(make([]byte, 1)) // handles the ticket, and goes on waiting
		received <- err
	}()
	select {
	case <-s.got:
		conn.Close()
		<-received
		return nil
	case err = <-received:
		conn.Close()
	case <-ctx.Done():
		conn.Close()
		<-received
		err = ctx.Err()
	}
	if s.state.Load() != nil {
		return nil
	}
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		return errors.New("the server sent no session ticket")
	}
	return fmt.Errorf("the server sent no session ticket: %w", err)
}

// connect makes a connection and its handshake.
func (c *Client) connect(ctx context.Context, dialer *net.Dialer, t *target) (*tls.Conn, error) {
	raw, err := dialer.DialContext(ctx, "tcp", t.address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, t.config)
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return conn, nil
}

// once does what the load asks for on one connection and records it. start is when it
// was due.
func (c *Client) once(ctx context.Context, start time.Time, r *recorder) {
	n := c.next.Add(1) - 1
	t := c.targets[n%uint64(len(c.targets))]
	step, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	conn, err := c.connect(step, c.dialers[n%uint64(len(c.dialers))], t)
	if err == nil {
		defer conn.Close()
		err = c.check(conn.ConnectionState(), c.load.Resume)
	}
	if err != nil {
		r.failed(ctx, err)
		return
	}
	r.handshake(time.Since(start))
	if c.load.Requests > 0 {
		c.requests(ctx, conn, r)
	}
}

// check refuses any handshake but the one that was asked for.
func (c *Client) check(state tls.ConnectionState, resumed bool) error {
	switch {
	case state.CurveID != c.load.Group:
		return wrongGroup(groups.Name(state.CurveID), groups.Name(c.load.Group))
	case state.Version != tls.VersionTLS13:
		return unexpected("version " + tls.VersionName(state.Version))
	case state.DidResume && !resumed:
		return unexpected("resumed")
	case !state.DidResume && resumed:
		return unexpected("not resumed")
	}
	return nil
}

// requests sends the requests one after another, the last with the word that no other
// follows.
func (c *Client) requests(ctx context.Context, conn *tls.Conn, r *recorder) {
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })
	defer stop()
	reader := readers.Get().(*bufio.Reader)
	reader.Reset(conn)
	defer func() {
		reader.Reset(nil) // lets go of the connection
		readers.Put(reader)
	}()
	for i := range c.load.Requests {
		start := time.Now()
		if ctx.Err() == nil {
			conn.SetDeadline(start.Add(stepTimeout))
		}
		last := i == c.load.Requests-1
		if err := c.request(conn, reader, last); err != nil {
			r.failed(ctx, err)
			return
		}
		r.request(time.Since(start))
	}
}

// request sends one request and reads the answer to its end.
func (c *Client) request(conn net.Conn, reader *bufio.Reader, last bool) error {
	end := "\r\n"
	if last {
		end = "Connection: close\r\n\r\n"
	}
	if _, err := io.WriteString(conn, c.header+end); err != nil {
		return err
	}
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return unexpected(fmt.Sprintf("answered with status %d", response.StatusCode))
	}
	if response.Close && !last {
		return unexpected("the server ended the connection after an answer")
	}
	return nil
}
