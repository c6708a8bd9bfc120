package proxy

import (
	"context"
	"crypto/tls"
	"net/http"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/accesslog"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logging"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/tracing"
)

// shake describes a handshake that has ended for a trace.
func (c *conn) shake(state *tls.ConnectionState, ended time.Time) *tracing.Handshake {
	h := &tracing.Handshake{Client: c.client(state), Began: c.accepted, Ended: ended}
	if c.exchanged > 0 {
		h.KeyExchange, h.KeyExchanged = c.accepted.Add(c.exchanged-c.keyExchange.Duration), c.keyExchange.Duration
	}
	if c.signed > 0 {
		h.Signature, h.Signed = c.accepted.Add(c.signed-c.signature.Duration), c.signature.Duration
	}
	return h
}

// begin begins the trace of a request, if there are any. What it returns is called
// with the request when that has ended.
func (x *exchange) begin(ctx context.Context, r *http.Request) (traced context.Context, ended func(*http.Request)) {
	t := x.server.tracer.Request(r)
	if t == nil {
		return ctx, untraced
	}
	x.trace = t
	ctx = backend.WithTracer(ctx, t)
	c := x.conn
	first := c.traced.CompareAndSwap(false, true)
	if !t.Recording() {
		return ctx, untraced
	}
	return ctx, func(r *http.Request) {
		var h *tracing.Handshake
		if first {
			h = c.shake(r.TLS, c.accepted.Add(c.handshook))
		}
		t.End(x.record(r), h)
	}
}

func untraced(*http.Request) {}

// trace makes the trace of a handshake that failed.
func (f failure) trace(t *tracing.Tracer) {
	t.FailedHandshake(f.conn.accepted, func() (*tracing.Handshake, *tracing.Failure) {
		e := f.event()
		return f.conn.shake(&f.state, f.conn.accepted.Add(e.Duration)),
			&tracing.Failure{Outcome: string(e.Outcome), Reason: logging.Peer(f.reason(), maxLoggedReason), AlertSent: e.AlertSent, AlertReceived: e.AlertReceived}
	})
}

// trace makes the trace of a connection that has ended, or that no backend took.
func (r *relay) trace(err error) {
	r.server.tracer.Connection(r.conn.accepted, r.start, func() (*accesslog.Connection, *tracing.Handshake) {
		if r.tls == nil {
			return r.record(), nil
		}
		return r.record(), r.conn.shake(r.tls, r.conn.accepted.Add(r.conn.handshook))
	}, err)
}
