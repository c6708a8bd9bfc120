package loadgen

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/machine"
)

// Kind is what a task does on each connection.
type Kind string

// The kinds.
const (
	Handshakes Kind = "handshakes" // nothing after the handshake
	Requests   Kind = "requests"   // one request over HTTP/1.1
	ProbeHTTP1 Kind = "http/1.1"   // one connection, one request
	ProbeHTTP2 Kind = "h2"         // the same over HTTP/2
)

// Bounds of a task.
const (
	MaxConcurrency = 4096
	MaxDuration    = time.Hour
	maxConnections = 1 << 20 // connections of one task, whose latencies are held
	connectTimeout = 10 * time.Second
	maxErrors      = 5 // kept for the report
)

// Task is one piece of work.
type Task struct {
	Kind        Kind          `json:"kind"`
	Address     string        `json:"address"`
	ServerName  string        `json:"server_name"`
	Certificate []byte        `json:"certificate"` // DER; the one that is trusted
	Group       tls.CurveID   `json:"group"`       // the only one offered
	Concurrency int           `json:"concurrency"`
	Duration    time.Duration `json:"duration"` // only the first of those at once can begin later
}

// Result is what became of a Task.
type Result struct {
	Completed int           `json:"completed"` // handshakes, and requests if asked for
	Failed    int           `json:"failed"`
	Errors    []string      `json:"errors,omitempty"` // the first few
	Elapsed   time.Duration `json:"elapsed"`
	CPU       time.Duration `json:"cpu"` // of the client
	P50       time.Duration `json:"p50"` // from before the connect to the end of the handshake, or of the answer
	P90       time.Duration `json:"p90"`
	P99       time.Duration `json:"p99"`
	Proto     string        `json:"proto,omitempty"`  // of a probe's answer
	Status    int           `json:"status,omitempty"` // the same
	Body      string        `json:"body,omitempty"`   // the same; its first 4096 bytes
}

// Serve does the tasks that it reads until in ends or ctx is done.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	tasks, results := json.NewDecoder(in), json.NewEncoder(out)
	for ctx.Err() == nil {
		var task Task
		if err := tasks.Decode(&task); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("loadgen: reading a task: %w", err)
		}
		result, err := do(ctx, task)
		if err != nil {
			return err
		}
		if err := results.Encode(result); err != nil {
			return fmt.Errorf("loadgen: writing a result: %w", err)
		}
	}
	return ctx.Err()
}

// client is a task under way.
type client struct {
	task   Task
	config *tls.Config
	begun  atomic.Int64
	failed atomic.Int64

	mu        sync.Mutex
	errors    []string
	latencies []time.Duration
}

// do does one task.
func do(ctx context.Context, task Task) (*Result, error) {
	c, err := newClient(task)
	if err != nil {
		return nil, err
	}
	if task.Kind == ProbeHTTP1 || task.Kind == ProbeHTTP2 {
		return c.probe(ctx), nil
	}
	before, err := machine.CPUTime()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	var workers sync.WaitGroup
	for range task.Concurrency {
		workers.Go(func() { c.work(ctx, start.Add(task.Duration)) })
	}
	workers.Wait()
	elapsed := time.Since(start)
	after, err := machine.CPUTime()
	if err != nil {
		return nil, err
	}
	r := c.result()
	r.Elapsed, r.CPU = elapsed, after-before
	return r, nil
}

func newClient(task Task) (*client, error) {
	if task.Concurrency < 1 || task.Concurrency > MaxConcurrency || task.Duration < 0 || task.Duration > MaxDuration {
		return nil, fmt.Errorf("loadgen: concurrency %d or duration %v is out of range", task.Concurrency, task.Duration)
	}
	cert, err := x509.ParseCertificate(task.Certificate)
	if err != nil {
		return nil, fmt.Errorf("loadgen: the certificate to trust: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return &client{task: task, config: &tls.Config{
		RootCAs:          roots,
		ServerName:       task.ServerName,
		MinVersion:       tls.VersionTLS13,
		CurvePreferences: []tls.CurveID{task.Group},
	}}, nil
}

// work makes one connection after another until end, but one at least: on a
// busy machine a worker may have its first turn late.
func (c *client) work(ctx context.Context, end time.Time) {
	var latencies []time.Duration
	for first := true; (first || time.Now().Before(end)) && ctx.Err() == nil && c.begun.Add(1) <= maxConnections; first = false {
		start := time.Now()
		done, err := c.once(ctx)
		if err != nil {
			c.fail(err)
			continue
		}
		latencies = append(latencies, done.Sub(start))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.latencies = append(c.latencies, latencies...)
}

// once makes a connection, a full handshake and, if asked for, a request. It
// returns when that was done; the closing comes after.
func (c *client) once(ctx context.Context) (done time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", c.task.Address)
	if err != nil {
		return done, err
	}
	conn := tls.Client(raw, c.config)
	defer conn.Close()
	if err := conn.HandshakeContext(ctx); err != nil {
		return done, err
	}
	if err := c.check(conn.ConnectionState()); err != nil {
		return done, err
	}
	if c.task.Kind == Requests {
		conn.SetDeadline(time.Now().Add(connectTimeout))
		if err := c.request(conn); err != nil {
			return done, err
		}
	}
	return time.Now(), nil
}

// check refuses any handshake but the one that was asked for.
func (c *client) check(state tls.ConnectionState) error {
	switch {
	case state.CurveID != c.task.Group:
		return fmt.Errorf("wrong group: %s instead of %s", groups.Name(state.CurveID), groups.Name(c.task.Group))
	case state.Version != tls.VersionTLS13:
		return fmt.Errorf("wrong version: %s", tls.VersionName(state.Version))
	case state.DidResume:
		return errors.New("the handshake was resumed")
	}
	return nil
}

// request sends one request and reads the answer to its end.
func (c *client) request(conn net.Conn) error {
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+c.task.ServerName+"\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", response.Status)
	}
	return nil
}

func (c *client) fail(err error) {
	c.failed.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if text := err.Error(); len(c.errors) < maxErrors && !slices.Contains(c.errors, text) {
		c.errors = append(c.errors, text)
	}
}

// result sums up once the workers are done.
func (c *client) result() *Result {
	slices.Sort(c.latencies)
	return &Result{
		Completed: len(c.latencies), Failed: int(c.failed.Load()), Errors: c.errors,
		P50: percentile(c.latencies, 50), P90: percentile(c.latencies, 90), P99: percentile(c.latencies, 99),
	}
}

// percentile is the least of the sorted values that p percent do not exceed
// (nearest rank), 0 if there are none.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

// probe makes one request with net/http's own client and keeps the answer.
func (c *client) probe(ctx context.Context) *Result {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	transport := &http.Transport{TLSClientConfig: c.config, Protocols: new(http.Protocols),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", c.task.Address)
		}}
	transport.Protocols.SetHTTP1(c.task.Kind == ProbeHTTP1)
	transport.Protocols.SetHTTP2(c.task.Kind == ProbeHTTP2)
	defer transport.CloseIdleConnections()
	r, err := c.ask(ctx, transport)
	if err != nil {
		return &Result{Failed: 1, Errors: []string{err.Error()}}
	}
	return r
}

func (c *client) ask(ctx context.Context, transport http.RoundTripper) (*Result, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+c.task.ServerName+"/", nil)
	if err != nil {
		return nil, err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err != nil {
		return nil, err
	}
	if err := c.check(*response.TLS); err != nil {
		return nil, err
	}
	return &Result{Completed: 1, Proto: response.Proto, Status: response.StatusCode, Body: string(body)}, nil
}
