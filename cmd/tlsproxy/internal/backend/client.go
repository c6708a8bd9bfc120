package backend

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxyprotocol"
)

// Client is a client's connection, which the backends of a pool with Proxy set
// are told of at the head of theirs. So what is kept for reuse is kept for that
// client, and closed once it has gone. Its methods may be called concurrently.
type Client struct {
	name   string // of no host: transports keep connections by names
	header func(proxyprotocol.Version) ([]byte, error)

	mu       sync.Mutex
	underway int // requests
	gone     bool
	conns    map[*conn]io.Closer // that can be reused
}

var clients atomic.Uint64

// NewClient returns a Client of which header tells; that is called for each
// connection, concurrently. Close the Client.
func NewClient(header func(proxyprotocol.Version) ([]byte, error)) *Client {
	return &Client{name: "client-" + strconv.FormatUint(clients.Add(1), 10), header: header, conns: map[*conn]io.Closer{}}
}

type clientKey struct{}

// WithClient has RoundTrip and Dial tell backends of a client. Without it they
// say that the connection is the proxy's own.
func WithClient(ctx context.Context, c *Client) context.Context {
	return context.WithValue(ctx, clientKey{}, c)
}

func clientOf(ctx context.Context) *Client {
	c, _ := ctx.Value(clientKey{}).(*Client)
	return c
}

// Close says that the client has gone. Its connections to backends are closed
// when the last request has ended.
func (c *Client) Close() {
	c.mu.Lock()
	c.gone = true
	idle := c.takeIfOver()
	c.mu.Unlock()
	closeAll(idle)
}

// enter counts a request in, until leave. Both do nothing for a nil Client.
func (c *Client) enter() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.underway++
	c.mu.Unlock()
}

func (c *Client) leave() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.underway--
	idle := c.takeIfOver()
	c.mu.Unlock()
	closeAll(idle)
}

// takeIfOver returns the connections if nobody will use them; c.mu is held.
func (c *Client) takeIfOver() map[*conn]io.Closer {
	if !c.gone || c.underway > 0 {
		return nil
	}
	idle := c.conns
	c.conns = nil
	return idle
}

func closeAll(conns map[*conn]io.Closer) {
	for _, c := range conns {
		c.Close()
	}
}

// adopt keeps a connection that can be reused, whose end is made known by drop.
// It reports whether the client is there to use it.
func (c *Client) adopt(of *conn, whole net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conns == nil {
		return false
	}
	of.client = c
	c.conns[of] = whole
	return true
}

func (c *Client) drop(of *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, of)
}
