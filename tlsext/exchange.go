package tlsext

import (
	"context"
	"crypto/ecdh"
	"crypto/tls"
	"fmt"
	"slices"
	"time"

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
	g, err := e.group(id)
	if err != nil {
		return nil, nil, err
	}
	began := time.Now()
	share, secret, err = e.engine.ServerExchange(ctx, g.scheme, clientShare)
	e.report(ctx, Event{Group: id, Server: true, Duration: time.Since(began), Err: err})
	return share, secret, err
}

// ClientShare is called by the hook; see hookExchanger.
func (e *exchanger) ClientShare(ctx context.Context, id tls.CurveID, x *ecdh.PrivateKey) (
	share []byte, finish func(context.Context, []byte) ([]byte, error), discard func(), err error) {
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
	finish = func(ctx context.Context, serverShare []byte) ([]byte, error) {
		defer discard()
		began := time.Now()
		secret, err := e.engine.ClientFinish(ctx, g.scheme, x, sk, serverShare)
		e.report(ctx, Event{Group: id, Duration: spent + time.Since(began), Err: err})
		return secret, err
	}
	return share, finish, discard, nil
}

func (e *exchanger) group(id tls.CurveID) (*group, error) {
	if g := groupOf(id); g != nil {
		return g, nil
	}
	return nil, fmt.Errorf("tlsext: %#04x is not a group of this package", uint16(id))
}
