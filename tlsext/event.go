package tlsext

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/ctrutls/ctrutls/provider"
)

// Event tells of a key exchange with one of this package's groups: on a server
// when its share is made or refused, on a client when the secret is computed, or
// its own share could not be made. A client whose server took another group sees
// none, nor does a key exchange of crypto/tls's own.
type Event struct {
	Group  tls.CurveID
	Server bool // the server's side; otherwise the client's
	// Duration is the time spent in the provider, waiting included. On a client
	// it is that of making the share and of computing the secret together.
	Duration time.Duration
	// Timing is the part of Duration that went to a batch and to waiting for it; on a
	// client, of computing the secret.
	Timing provider.Timing
	// Err is nil on success. A fault of the peer is a [*provider.PeerError],
	// answered with illegal_parameter; any other with internal_error. It holds no
	// key material.
	Err error
}

// Observe makes f receive the [Event] of every handshake, with the handshake's
// context. f runs in the handshake's goroutine, so it has to be quick, and
// concurrently with itself.
func Observe(f func(context.Context, Event)) Option {
	return func(e *exchanger) { e.observe = f }
}

type observerKey struct{}

// WithObserver returns a context under which f, too, receives the [Event] of each
// handshake; as with [Observe], in the handshake's goroutine.
func WithObserver(ctx context.Context, f func(Event)) context.Context {
	return context.WithValue(ctx, observerKey{}, f)
}

// timed returns a context for a call of the engine whose Timing an observer will
// see, if there is one.
func (e *exchanger) timed(ctx context.Context) (context.Context, *provider.Timing) {
	if e.observe == nil && ctx.Value(observerKey{}) == nil {
		return ctx, &noTiming
	}
	return provider.WithTiming(ctx)
}

// noTiming is what nobody sees, and nobody writes to.
var noTiming provider.Timing

func (e *exchanger) report(ctx context.Context, event Event) {
	if e.observe != nil {
		e.observe(ctx, event)
	}
	if f, ok := ctx.Value(observerKey{}).(func(Event)); ok && f != nil {
		f(event)
	}
}
