package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Check is what a health check asks of a backend.
type Check int

const (
	NoCheck      Check = iota
	CheckConnect       // that it can be connected to, over TLS if it is an https or tls backend
	CheckHTTP          // an answer from 200 to 399 to a GET
	CheckGRPC          // SERVING, by gRPC's health checking protocol
)

// Health says how backends are checked between requests.
type Health struct {
	Check          Check
	Path           string // of CheckHTTP
	Host           string // the Host header; "": the URL's host
	Interval       time.Duration
	Timeout        time.Duration
	HealthyAfter   int // checks in a row
	UnhealthyAfter int
}

// maxCheckedBytes bounds how much of a check's answer is read. An answer that is
// longer costs its connection.
const maxCheckedBytes = 64 << 10

// watch checks a backend until ctx ends. Until a check says otherwise it is fit.
func (b *backend) watch(ctx context.Context, o *Options) {
	for {
		err := b.check(ctx, o)
		if ctx.Err() != nil {
			return
		}
		b.checked(err, &o.Health)
		select {
		case <-time.After(o.Health.Interval):
		case <-ctx.Done():
			return
		}
	}
}

// checked notes what a health check came to.
func (b *backend) checked(err error, h *Health) {
	b.mu.Lock()
	needed := h.UnhealthyAfter
	if b.unfit {
		needed = h.HealthyAfter
	}
	if b.unfit == (err != nil) {
		b.checks = 0
	} else {
		b.checks++
	}
	changed := b.checks >= needed
	if changed {
		b.unfit, b.checks = !b.unfit, 0
	}
	b.mu.Unlock()
	switch {
	case changed && err != nil:
		b.log.Warn("backend is unhealthy", "backend", b.name, "checks", needed, "err", err)
	case changed:
		b.log.Info("backend is healthy", "backend", b.name, "checks", needed)
	}
}

// check returns nil if the backend is well.
func (b *backend) check(ctx context.Context, o *Options) error {
	ctx, cancel := context.WithTimeout(ctx, o.Health.Timeout)
	defer cancel()
	switch o.Health.Check {
	case CheckConnect:
		c, err := b.dialer.connect(ctx)
		if err != nil {
			return err
		}
		return c.Close()
	case CheckGRPC:
		return b.checkGRPC(ctx, o.Health.Host)
	}
	return b.checkHTTP(ctx, &o.Health)
}

func (b *backend) checkHTTP(ctx context.Context, h *Health) error {
	r, err := b.checkRequest(ctx, http.MethodGet, h.Path, h.Host, nil)
	if err != nil {
		return err
	}
	_, response, err := b.ask(r)
	if err != nil {
		return err
	}
	if response.StatusCode < 200 || response.StatusCode > 399 {
		return fmt.Errorf("it answered %d", response.StatusCode)
	}
	return nil
}

// checkRequest makes a request of the proxy's own. The path is not put behind
// the base path: the check may be elsewhere.
func (b *backend) checkRequest(ctx context.Context, method, path, host string, body []byte) (*http.Request, error) {
	to, err := url.ParseRequestURI(path)
	if err != nil {
		return nil, err
	}
	to.Scheme, to.Host = b.target.Scheme, b.target.Host
	r, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if host != "" {
		r.Host = host
	}
	r.Header.Set("User-Agent", "tlsproxy-health")
	return r, nil
}

// ask sends a check's request and reads the answer to its end.
func (b *backend) ask(r *http.Request) ([]byte, *http.Response, error) {
	response, err := b.main.RoundTrip(r)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxCheckedBytes))
	return body, response, err
}

// checkGRPC calls grpc.health.v1.Health/Check for the server as a whole.
func (b *backend) checkGRPC(ctx context.Context, host string) error {
	emptyMessage := make([]byte, 5) // not compressed, length 0
	r, err := b.checkRequest(ctx, http.MethodPost, "/grpc.health.v1.Health/Check", host, emptyMessage)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	body, response, err := b.ask(r)
	if err != nil {
		return err
	}
	status := response.Trailer.Get("Grpc-Status")
	if status == "" {
		status = response.Header.Get("Grpc-Status") // an answer of trailers alone
	}
	if response.StatusCode != http.StatusOK || status != "0" {
		return fmt.Errorf("it answered status %d, gRPC status %q", response.StatusCode, status)
	}
	serving := []byte{0, 0, 0, 0, 2, 0x08, 1} // a message whose field 1, status, is SERVING
	if !bytes.Equal(body, serving) {
		return errors.New("it answered that it is not serving")
	}
	return nil
}
