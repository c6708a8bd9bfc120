package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/ctrutls/ctrutls/interop/internal/hook"
	"github.com/ctrutls/ctrutls/interop/internal/outcome"
)

// connection is one line of the output.
type connection struct {
	Index int `json:"index"`
	outcome.Handshake
	ConnectMS float64   `json:"connect_ms,omitempty"` // TCP, milliseconds
	TotalMS   float64   `json:"total_ms"`             // connecting to closing, milliseconds
	HTTP      *response `json:"http,omitempty"`
	Echoed    int       `json:"echoed,omitempty"` // bytes that came back
}

// client makes the connections.
type client struct {
	*options
	tls    *tls.Config
	shares []tls.CurveID

	mu      sync.Mutex
	summary outcome.Summary
}

func newClient(o *options) (*client, error) {
	cfg, err := o.tlsConfig()
	if err != nil {
		return nil, err
	}
	shares, err := hook.Groups(o.Share)
	if err != nil {
		return nil, err
	}
	if err := hook.CheckShares(shares, cfg.CurvePreferences); err != nil {
		return nil, err
	}
	return &client{options: o, tls: cfg, shares: shares}, nil
}

// run makes all connections and prints their outcomes in order of completion.
func (c *client) run(stdout io.Writer) outcome.Exit {
	out := json.NewEncoder(stdout)
	start := time.Now()
	indices := make(chan int)
	var workers sync.WaitGroup
	for range min(c.Concurrency, c.Count) {
		workers.Go(func() {
			for i := range indices {
				c.report(out, c.connect(i))
			}
		})
	}
	for i := range c.Count {
		indices <- i
	}
	close(indices)
	workers.Wait()
	if c.Summary {
		c.summary.Seconds = time.Since(start).Seconds()
		out.Encode(&c.summary)
	}
	return c.summary.Exit
}

func (c *client) report(out *json.Encoder, done *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.summary.Add(&done.Handshake)
	if !c.Summary {
		out.Encode(done)
	}
}

// connect makes connection number i and returns how it went.
func (c *client) connect(i int) *connection {
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	result := &connection{Index: i}
	start := time.Now()
	err := c.converse(ctx, result)
	result.TotalMS = milliseconds(time.Since(start))
	result.Failure = outcome.FailureOf(err)
	return result
}

func (c *client) converse(ctx context.Context, result *connection) error {
	start := time.Now()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", c.Address)
	if err != nil {
		return &outcome.TransportError{Err: err}
	}
	defer raw.Close()
	result.ConnectMS = milliseconds(time.Since(start))
	hello := &helloConn{Conn: raw, recordSize: c.RecordSize, segmentSize: c.SegmentSize}
	conn := tls.Client(hello, c.config(&result.CertificateRequested))
	start = time.Now()
	err = conn.HandshakeContext(hook.WithShares(ctx, c.shares))
	result.HandshakeMS = milliseconds(time.Since(start))
	result.Fill(conn.ConnectionState())
	result.HelloBytes, result.SharesSent = hello.sent()
	if err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok { // until here the context was enough
		raw.SetDeadline(deadline)
	}
	return c.exchange(ctx, conn, result)
}

// config is the configuration of one connection, which notes in requested
// whether the server asks for a certificate. The one given is sent even if the
// server names other authorities: its alert is what one wants to see. For a
// large ClientHello it adds ALPN names that are too long to be any protocol's.
func (c *client) config(requested *bool) *tls.Config {
	cfg := c.tls.Clone()
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		*requested = true
		if len(cfg.Certificates) > 0 {
			return &cfg.Certificates[0], nil
		}
		return new(tls.Certificate), nil // none
	}
	for size := 0; size < c.HelloSize; size += maxALPN {
		cfg.NextProtos = append(cfg.NextProtos, fmt.Sprintf("%0*d", maxALPN, size))
	}
	return cfg
}

// maxALPN is the length in bytes of the longest ALPN name (RFC 7301).
const maxALPN = 255

// exchange says something through the connection and closes it.
func (c *client) exchange(ctx context.Context, conn *tls.Conn, result *connection) (err error) {
	switch {
	case c.Get != "":
		result.HTTP, err = get(ctx, conn, c.url())
	case c.Echo > 0:
		result.Echoed, err = echo(conn, c.Echo)
	case c.AwaitClose:
		if _, err = io.Copy(io.Discard, conn); err == nil {
			return conn.Close()
		}
	default:
		return conn.Close()
	}
	if err != nil {
		return sticky(conn, err)
	}
	return nil
}

func (c *client) url() string {
	_, port, _ := net.SplitHostPort(c.Address)
	return "https://" + net.JoinHostPort(strings.Trim(c.tls.ServerName, "[]"), port) + c.Get
}

// sticky returns the error that ended the TLS connection, where one did: what
// net/http reports for an alert depends on which of its goroutines met it.
func sticky(conn *tls.Conn, err error) error {
	conn.SetReadDeadline(time.Now())
	var b [1]byte
	if _, cause := conn.Read(b[:]); outcome.FailureOf(cause).Alert != nil {
		return cause
	}
	return err
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
