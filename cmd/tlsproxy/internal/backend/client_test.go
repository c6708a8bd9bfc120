package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxyprotocol"
)

// told accepts connections that begin with a PROXY header, and remembers whom it
// told of: a source, or "local".
type told struct {
	net.Listener
	mu      sync.Mutex
	sources []string
	ended   chan string // the source of each connection that has ended
}

func (l *told) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	h, ahead, err := (&proxyprotocol.Trust{Timeout: time.Minute}).Read(c)
	if err != nil {
		c.Close()
		return l.Accept()
	}
	source := "local"
	if h.Source != nil {
		source = h.Source.String()
	}
	l.mu.Lock()
	l.sources = append(l.sources, source)
	l.mu.Unlock()
	return &toldConn{Conn: c, ahead: ahead, source: source, of: l}, nil
}

// seen returns the sources so far, and forgets them.
func (l *told) seen() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.sources
	l.sources = nil
	return all
}

type toldConn struct {
	net.Conn
	ahead  []byte
	source string
	of     *told
	once   sync.Once
}

func (c *toldConn) Read(b []byte) (int, error) {
	if len(c.ahead) > 0 {
		n := copy(b, c.ahead)
		c.ahead = c.ahead[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

func (c *toldConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.of.ended <- c.source })
	return err
}

// tellingPool is a pool whose one backend, of a scheme, wants to be told of
// clients. With secure the handler is served over TLS.
func tellingPool(t *testing.T, scheme string, handler http.HandlerFunc, change func(*Options)) (*Pool, *told) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	ln := &told{Listener: server.Listener, ended: make(chan string, 100)}
	server.Listener = ln
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetHTTP2(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.EnableHTTP2 = true
	o := Options{Name: "test", Retries: 1, EjectAfter: 5, EjectFor: time.Second, MaxIdleConnections: 8, ConnectTimeout: time.Minute, IdleTimeout: time.Minute,
		Proxy: proxyprotocol.V2, Logger: slog.New(slog.DiscardHandler)}
	if scheme == "https" {
		server.StartTLS()
		o.TLS = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		o.TLS.ServerName = "example.com"
	} else {
		server.Start()
	}
	o.URLs = []*url.URL{{Scheme: scheme, Host: ln.Addr().String()}}
	if change != nil {
		change(&o)
	}
	pool, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close(); server.CloseClientConnections(); server.Close() })
	return pool, ln
}

// clientAt is one at a port of an address.
func clientAt(port int) *Client {
	of := proxyprotocol.Client{Source: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: port}, Destination: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 443}}
	return NewClient(of.Format)
}

// ask sends a request for a client, nil: for none, and reads the answer.
func ask(t *testing.T, pool *Pool, client *Client) *http.Response {
	t.Helper()
	r, err := newRequest()
	if err != nil {
		t.Fatal(err)
	}
	if client != nil {
		r = r.WithContext(WithClient(r.Context(), client))
	}
	response, err := pool.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, response.Body)
	response.Body.Close()
	return response
}

// TestConnectionsAreOfOneClient: in each protocol a connection is reused for the
// client that it tells of, for no other, and ends with it.
func TestConnectionsAreOfOneClient(t *testing.T) {
	for name, protocol := range map[string]struct {
		scheme   string
		protocol Protocol
		version  proxyprotocol.Version
		major    int
	}{
		"HTTP1":    {"http", HTTP1, proxyprotocol.V2, 1},
		"HTTP1 v1": {"http", HTTP1, proxyprotocol.V1, 1},
		"TLS":      {"https", HTTP1, proxyprotocol.V2, 1},
		"HTTP2":    {"https", HTTP2, proxyprotocol.V2, 2},
		"H2C":      {"http", H2C, proxyprotocol.V2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			pool, ln := tellingPool(t, protocol.scheme, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Host) }, func(o *Options) {
				o.Protocol, o.Proxy = protocol.protocol, protocol.version
			})
			first, second := clientAt(1), clientAt(2)
			defer second.Close()
			for _, c := range []*Client{first, second, first, second} {
				response := ask(t, pool, c)
				if response.ProtoMajor != protocol.major || response.Request.URL.Host != ln.Addr().String() {
					t.Errorf("%s from %s", response.Proto, response.Request.URL.Host)
				}
			}
			got := ln.seen()
			if protocol.major == 2 {
				// A transport lends a new connection of HTTP/2 before it keeps it, so
				// that a request right behind the first can find none, and open one more.
				for _, c := range []*Client{first, second} {
					for more := true; more; more = len(ln.seen()) > 0 {
						ask(t, pool, c)
					}
				}
				slices.Sort(got)
				got = slices.Compact(got)
			}
			if !slices.Equal(got, []string{"192.0.2.1:1", "192.0.2.1:2"}) {
				t.Errorf("connections are of %v", got)
			}
			first.Close()
			for <-ln.ended != "192.0.2.1:1" {
				if protocol.major == 1 {
					t.Error("the connection of another client ended")
				}
			}
			ask(t, pool, second)
			if got := ln.seen(); len(got) > 0 {
				t.Errorf("connections are of %v", got)
			}
			ask(t, pool, nil)
			if got := ln.seen(); !slices.Equal(got, []string{"local"}) {
				t.Errorf("without a client: %v", got)
			}
		})
	}
}

// TestClientGoesDuringARequest: the connection ends once the answer was read.
func TestClientGoesDuringARequest(t *testing.T) {
	pool, ln := tellingPool(t, "http", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "all of it") }, nil)
	r, err := newRequest()
	if err != nil {
		t.Fatal(err)
	}
	client := clientAt(1)
	response, err := pool.RoundTrip(r.WithContext(WithClient(r.Context(), client)))
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || string(body) != "all of it" {
		t.Errorf("%q, %v", body, err)
	}
	response.Body.Close()
	if got := <-ln.ended; got != "192.0.2.1:1" {
		t.Error(got)
	}
	if _, err := pool.RoundTrip(r.WithContext(WithClient(r.Context(), client))); !errors.Is(err, errClientGone) {
		t.Errorf("a late request: %v", err)
	}
	if got := <-ln.ended; got != "192.0.2.1:1" {
		t.Error(got)
	}
	if st := pool.Status(); st[0].Failures > 0 {
		t.Errorf("the backend is blamed: %+v", st)
	}
}

// TestChecksSayTheyAreLocal, of requests and of connections; and Dial tells of
// its client.
func TestChecksSayTheyAreLocal(t *testing.T) {
	for check, scheme := range map[Check]string{CheckHTTP: "http", CheckConnect: "tcp"} {
		asked := make(chan bool, 100)
		pool, ln := tellingPool(t, scheme, func(w http.ResponseWriter, r *http.Request) { asked <- true }, func(o *Options) {
			o.Health = Health{Check: check, Path: "/", Interval: time.Hour, Timeout: time.Minute, HealthyAfter: 1, UnhealthyAfter: 1}
		})
		if check == CheckHTTP {
			<-asked
		} else if got := <-ln.ended; got != "local" {
			t.Error(got)
		}
		if got := ln.seen(); !slices.Equal(got, []string{"local"}) {
			t.Errorf("the check is of %v", got)
		}
		client := clientAt(3)
		c, err := pool.Dial(WithClient(context.Background(), client), "192.0.2.1:3")
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if got := <-ln.ended; got != "192.0.2.1:3" {
			t.Error(got)
		}
		client.Close()
	}
}

// TestHeaderThatCannotBeSent is the error of the request.
func TestHeaderThatCannotBeSent(t *testing.T) {
	pool, ln := tellingPool(t, "tcp", nil, nil)
	defer func() { <-ln.ended }()
	broken := NewClient(func(proxyprotocol.Version) ([]byte, error) { return nil, io.ErrShortBuffer })
	if _, err := pool.Dial(WithClient(context.Background(), broken), "192.0.2.1:3"); err == nil {
		t.Error("a connection without its header")
	}
	c, err := pool.Dial(context.Background(), "192.0.2.1:3")
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}
