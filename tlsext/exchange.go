package tlsext

import (
	"context"
	"crypto/ecdh"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/ctrutls/ctrutls/internal/panics"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// engine is what a handshake needs of a [provider.Provider]: one call for a
// client's key, one for each side of the exchange.
type engine interface {
	GenerateKey(ctx context.Context, s *ctruprime.Scheme) (sk []byte, err error)
	ServerExchange(ctx context.Context, s *ctruprime.Scheme, clientShare []byte) (serverShare, secret []byte, err error)
	ClientFinish(ctx context.Context, s *ctruprime.Scheme, x *ecdh.PrivateKey, sk, serverShare []byte) (secret []byte, err error)
}

// exchanger carries out the hook's key exchanges with one engine. It is
// immutable once registered; a handshake keeps the one that it began with.
type exchanger struct {
	engine  engine
	shares  []tls.CurveID
	observe func(context.Context, Event)
}

// ServerShare is called by the hook; see hookExchanger.
func (e *exchanger) ServerShare(ctx context.Context, id tls.CurveID, clientShare []byte) (share, secret []byte, err error) {
	defer caught(&err)
	g, err := e.group(id)
	if err != nil {
		return nil, nil, err
	}
	began := time.Now()
	timed, timing := e.timed(ctx)
	share, secret, err = e.engine.ServerExchange(timed, g.scheme, clientShare)
	e.report(ctx, Event{Group: id, Server: true, Duration: time.Since(began), Timing: *timing, Err: err})
	return share, secret, err
}

// ClientShare is called by the hook; see hookExchanger.
func (e *exchanger) ClientShare(ctx context.Context, id tls.CurveID, x *ecdh.PrivateKey) (
	share []byte, finish func(context.Context, []byte) ([]byte, error), discard func(), err error) {
	defer caught(&err)
	g, err := e.group(id)
	if err != nil {
		return nil, nil, nil, err
	}
	began := time.Now()
	sk, err := e.engine.GenerateKey(ctx, g.scheme)
	spent := time.Since(began)
	if err != nil {
		e.report(ctx, Event{Group: id, Duration: spent, Err: err})
		return nil, nil, nil, err
	}
	share = slices.Concat(x.PublicKey().Bytes(), g.scheme.PublicKeyOf(sk))
	discard = func() { clear(sk) }
	finish = func(ctx context.Context, serverShare []byte) (secret []byte, err error) {
		defer discard()
		defer caught(&err)
		began := time.Now()
		timed, timing := e.timed(ctx)
		secret, err = e.engine.ClientFinish(timed, g.scheme, x, sk, serverShare)
		e.report(ctx, Event{Group: id, Duration: spent + time.Since(began), Timing: *timing, Err: err})
		return secret, err
	}
	return share, finish, discard, nil
}

// caught turns a panic, of an observer or of an engine that does not catch its
// own, into an error that is ours, and logs where it happened. Deferred.
func caught(err *error) {
	if v := recover(); v != nil {
		slog.Error("tlsext: a key exchange panicked", "panic", panics.Text(v), "place", panics.Place())
		*err = errPanic
	}
}

var errPanic = errors.New("tlsext: the key exchange panicked; the log names the place")

func (e *exchanger) group(id tls.CurveID) (*group, error) {
	if g := groupOf(id); g != nil {
		return g, nil
	}
	return nil, fmt.Errorf("tlsext: %#04x is not a group of this package", uint16(id))
}
