// This file is added to package crypto/tls at build time by gotls, the command
// of github.com/ctrutls/ctrutls. It is written for that project and holds no
// text of the Go distribution. Everything it declares starts with ctrutls, so
// that it collides with nothing of crypto/tls.
//
// It lets another package register TLS 1.3 key exchanges in the private-use
// range. The lines that gotls inserts into crypto/tls call the functions here:
//
//	keySharePrivateKeys             holds a *ctrutlsShares
//	CurveID.String                  ctrutlsName
//	clientHelloMsg.unmarshal        ctrutlsName
//	Config.curvePreferences         ctrutlsPreferences
//	keyExchangeForCurveID           ctrutlsKeyExchangeFor
//	server: processClientHello      ctrutlsSelect, ctrutlsServe, ctrutlsFail
//	client: clientHandshake         ctrutlsClientShares, ctrutlsRelease
//	client: processHelloRetryRequest  ctrutlsRetry
//	client: establishHandshakeKeys  ctrutlsFinish, ctrutlsFail

package tls

import (
	"context"
	"crypto/ecdh"
	"crypto/tls/internal/fips140tls"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
)

// ctrutlsHook is the version of what the two sides say to each other: it grows
// with every change of ctrutlsExchanger or of CtrutlsRegisterV1.
const ctrutlsHook = 1

// ctrutlsExchanger carries out the registered key exchanges. It is an alias of
// an interface literal: the package that registers spells the same literal, so
// the types are identical and neither side imports the other.
type ctrutlsExchanger = interface {
	// SharesFor says for which of the offered groups, which are in order of
	// preference, a client's first ClientHello carries a key share.
	SharesFor(ctx context.Context, offered []CurveID) []CurveID
	// ClientShare makes a client's key share of a registered group. finish
	// computes the secret from the server's share; discard ends the life of the
	// private keys, used or not, and may be called more than once.
	ClientShare(ctx context.Context, group CurveID, x *ecdh.PrivateKey) (share []byte, finish func(ctx context.Context, serverShare []byte) (secret []byte, err error), discard func(), err error)
	// ServerShare makes a server's key share and the secret.
	ServerShare(ctx context.Context, group CurveID, clientShare []byte) (share, secret []byte, err error)
}

// ctrutlsRegistry is immutable: a later registration replaces it as a whole.
// A handshake that is under way keeps the one that it began with.
type ctrutlsRegistry struct {
	names     map[CurveID]string
	exchanger ctrutlsExchanger
}

var ctrutlsRegistered atomic.Pointer[ctrutlsRegistry]

func (r *ctrutlsRegistry) has(id CurveID) bool { return r.names[id] != "" }

// CtrutlsHookVersion tells which hook a program was built with.
func (CurveID) CtrutlsHookVersion() int { return ctrutlsHook }

// CtrutlsRegisterV1 registers named groups, or replaces those registered. It is
// a method of CurveID because a type assertion on a value of an exported type
// is how a package finds it without naming it.
func (CurveID) CtrutlsRegisterV1(names map[CurveID]string, exchanger ctrutlsExchanger) error {
	r := &ctrutlsRegistry{make(map[CurveID]string), exchanger}
	for id, name := range names {
		// RFC 8446, section 4.2.7: ecdhe_private_use(0xFE00..0xFEFF).
		if id>>8 != 0xfe || name == "" {
			return fmt.Errorf("tls: %#04x (%q) is not a named group in the private-use range", uint16(id), name)
		}
		r.names[id] = name
	}
	ctrutlsRegistered.Store(r)
	return nil
}

// ctrutlsName names a registered group; it is empty for every other.
func ctrutlsName(id CurveID) string {
	if r := ctrutlsRegistered.Load(); r != nil {
		return r.names[id]
	}
	return ""
}

// ctrutlsPreferences is the order of preference where c.CurvePreferences names
// a registered group: that of c.CurvePreferences. It is nil where it names none,
// before TLS 1.3, and in FIPS mode, whose filter knows approved groups only; the
// code of crypto/tls then decides alone and ignores registered groups.
func ctrutlsPreferences(c *Config, version uint16) []CurveID {
	r := ctrutlsRegistered.Load()
	if r == nil || c == nil || version < VersionTLS13 || fips140tls.Required() ||
		!slices.ContainsFunc(c.CurvePreferences, r.has) {
		return nil
	}
	std := slices.DeleteFunc(slices.Clone(c.CurvePreferences), r.has)
	if len(std) > 0 { // an empty list would mean the defaults
		std = (&Config{CurvePreferences: std}).curvePreferences(version)
	}
	order := make([]CurveID, 0, len(c.CurvePreferences))
	for _, id := range c.CurvePreferences {
		if (r.has(id) || slices.Contains(std, id)) && !slices.Contains(order, id) {
			order = append(order, id)
		}
	}
	return order
}

// ctrutlsSelect is the server's choice of group. Where its Config names a
// registered group it is the first of its list that the client offers, with or
// without a key share; elsewhere what crypto/tls selected stands.
func ctrutlsSelect(c *Conn, hello *clientHelloMsg, selected CurveID) CurveID {
	for _, id := range ctrutlsPreferences(c.config, c.vers) {
		if slices.Contains(hello.supportedCurves, id) {
			return id
		}
	}
	return selected
}

// ctrutlsKeyExchange is the keyExchange of a registered group, for one use. Its
// context is that of the handshake; only a client's first ClientHello is made
// without one, see keyShares.
type ctrutlsKeyExchange struct {
	id       CurveID
	registry *ctrutlsRegistry
	ctx      context.Context
	keys     *keySharePrivateKeys
}

// ctrutlsKeyExchangeFor returns nil where id is not registered.
func ctrutlsKeyExchangeFor(id CurveID) keyExchange {
	if r := ctrutlsRegistered.Load(); r != nil && r.has(id) {
		return &ctrutlsKeyExchange{id: id, registry: r}
	}
	return nil
}

// ctrutlsServe hands the server's handshake to the key exchange.
func ctrutlsServe(ke keyExchange, hs *serverHandshakeStateTLS13) keyExchange {
	if x, ok := ke.(*ctrutlsKeyExchange); ok {
		x.ctx = hs.ctx
	}
	return ke
}

// ctrutlsRetry hands the client's handshake to the key exchange that answers a
// HelloRetryRequest. Its share replaces all that were sent before.
func ctrutlsRetry(ke keyExchange, hs *clientHandshakeStateTLS13) keyExchange {
	ctrutlsRelease(hs.keyShareKeys)
	if x, ok := ke.(*ctrutlsKeyExchange); ok {
		x.ctx, x.keys = hs.ctx, hs.keyShareKeys
	}
	return ke
}

// ctrutlsFinish hands the client's handshake to the key exchange that the
// server chose. Where that is one of crypto/tls's own, it gets its own keys.
func ctrutlsFinish(ke keyExchange, hs *clientHandshakeStateTLS13) keyExchange {
	if x, ok := ke.(*ctrutlsKeyExchange); ok {
		x.ctx = hs.ctx
		return x
	}
	// The keys change in place: the caller may have read the pointer already.
	if keys := hs.keyShareKeys; keys.ctrutls != nil {
		chosen := keys.ctrutls.std[hs.serverHello.serverShare.group]
		ctrutlsRelease(keys)
		*keys = chosen.keys
	}
	return ke
}

// keyShares makes the share that answers a HelloRetryRequest, on an X25519 key
// of its own. For the first ClientHello, which crypto/tls builds without a
// context, it returns a place that ctrutlsClientShares fills.
func (ke *ctrutlsKeyExchange) keyShares(rand io.Reader) (_ *keySharePrivateKeys, _ []keyShare, err error) {
	if ke.ctx == nil {
		return &keySharePrivateKeys{}, []keyShare{{group: ke.id}}, nil
	}
	defer ctrutlsGuard(&err)
	x, err := ecdh.X25519().GenerateKey(rand)
	if err != nil {
		return nil, nil, err
	}
	// The pointer stays the same, so that clientHandshake releases these keys.
	*ke.keys = keySharePrivateKeys{ecdhe: x, ctrutls: &ctrutlsShares{registry: ke.registry}}
	share, err := ke.keys.ctrutls.add(ke.ctx, ke.id, x)
	if err != nil {
		return nil, nil, err
	}
	return ke.keys, []keyShare{share}, nil
}

func (ke *ctrutlsKeyExchange) serverSharedSecret(_ io.Reader, clientKeyShare []byte) (secret []byte, ks keyShare, err error) {
	defer ctrutlsGuard(&err)
	share, secret, err := ke.registry.exchanger.ServerShare(ke.ctx, ke.id, clientKeyShare)
	if err != nil {
		return nil, keyShare{}, ctrutlsWrap("client", ke.registry.names[ke.id], err)
	}
	return secret, keyShare{ke.id, share}, nil
}

func (ke *ctrutlsKeyExchange) clientSharedSecret(priv *keySharePrivateKeys, serverKeyShare []byte) (secret []byte, err error) {
	defer ctrutlsRelease(priv)
	defer ctrutlsGuard(&err)
	if priv.ctrutls == nil || priv.ctrutls.own[ke.id].finish == nil {
		return nil, &ctrutlsError{errors.New("no private key for " + ke.registry.names[ke.id]), alertInternalError}
	}
	secret, err = priv.ctrutls.own[ke.id].finish(ke.ctx, serverKeyShare)
	if err != nil {
		return nil, ctrutlsWrap("server", ke.registry.names[ke.id], err)
	}
	return secret, nil
}

// ctrutlsShares holds a client's private keys for the shares that it sent, from
// the ClientHello to the end of the handshake.
type ctrutlsShares struct {
	registry *ctrutlsRegistry
	own      map[CurveID]ctrutlsOwnShare // registered groups
	std      map[CurveID]ctrutlsStdShare // those of crypto/tls
}

type ctrutlsOwnShare struct {
	finish  func(ctx context.Context, serverShare []byte) (secret []byte, err error)
	discard func()
}

type ctrutlsStdShare struct {
	share keyShare
	keys  keySharePrivateKeys
}

// add makes the share of a registered group on the X25519 key x.
func (s *ctrutlsShares) add(ctx context.Context, id CurveID, x *ecdh.PrivateKey) (keyShare, error) {
	share, finish, discard, err := s.registry.exchanger.ClientShare(ctx, id, x)
	if err != nil {
		return keyShare{}, ctrutlsWrap("server", s.registry.names[id], err)
	}
	if s.own == nil {
		s.own = make(map[CurveID]ctrutlsOwnShare)
	}
	s.own[id] = ctrutlsOwnShare{finish, discard}
	return keyShare{id, share}, nil
}

// addStd makes the shares of one of crypto/tls's groups. A hybrid brings that of
// its classical part along, which replaces one made before: the shares of one
// ClientHello are on one X25519 key.
func (s *ctrutlsShares) addStd(id CurveID, rand io.Reader) error {
	ke, err := keyExchangeForCurveID(id)
	if err != nil {
		return err
	}
	keys, shares, err := ke.keyShares(rand)
	if err != nil {
		return err
	}
	s.keepStd(keys, shares)
	return nil
}

func (s *ctrutlsShares) keepStd(keys *keySharePrivateKeys, shares []keyShare) {
	if s.std == nil {
		s.std = make(map[CurveID]ctrutlsStdShare)
	}
	for _, share := range shares {
		s.std[share.group] = ctrutlsStdShare{share, *keys}
	}
}

// x25519 returns the X25519 key of a share of crypto/tls's, or nil.
func (s *ctrutlsShares) x25519() *ecdh.PrivateKey {
	for _, std := range s.std {
		if k := std.keys.ecdhe; k != nil && k.Curve() == ecdh.X25519() {
			return k
		}
	}
	return nil
}

// ctrutlsClientShares makes the key shares of a client's first ClientHello where
// it offers a registered group; elsewhere those that crypto/tls made stand. They
// are in the order of hello.supportedCurves, as RFC 8446, section 4.2.8 asks.
func ctrutlsClientShares(ctx context.Context, c *Conn, hello *clientHelloMsg, keys *keySharePrivateKeys) (err error) {
	r := ctrutlsRegistered.Load()
	if r == nil || keys == nil || !slices.ContainsFunc(hello.supportedCurves, r.has) {
		return nil
	}
	defer func() {
		if err != nil {
			ctrutlsRelease(keys)
		}
	}()
	defer ctrutlsGuard(&err)
	want := r.exchanger.SharesFor(ctx, slices.Clone(hello.supportedCurves))
	want = slices.DeleteFunc(slices.Clone(hello.supportedCurves), func(id CurveID) bool { return !slices.Contains(want, id) })
	if len(want) == 0 {
		want = hello.supportedCurves[:1]
	}

	s := &ctrutlsShares{registry: r}
	if !r.has(hello.supportedCurves[0]) {
		s.keepStd(keys, hello.keyShares)
	}
	*keys = keySharePrivateKeys{ctrutls: s}
	// Hybrids first: the classical share beside them is theirs.
	for _, hybrid := range []bool{true, false} {
		for _, id := range want {
			if _, made := s.std[id]; made || r.has(id) || isPQKeyExchange(id) != hybrid {
				continue
			}
			if err := s.addStd(id, c.config.rand()); err != nil {
				return err
			}
		}
	}
	if keys.ecdhe = s.x25519(); keys.ecdhe == nil {
		if keys.ecdhe, err = ecdh.X25519().GenerateKey(c.config.rand()); err != nil {
			return err
		}
	}
	hello.keyShares = nil
	for _, id := range want {
		share := s.std[id].share
		if r.has(id) {
			if share, err = s.add(ctx, id, keys.ecdhe); err != nil {
				return err
			}
		}
		hello.keyShares = append(hello.keyShares, share)
	}
	return nil
}

// ctrutlsRelease ends the life of a client's private keys of registered groups.
func ctrutlsRelease(keys *keySharePrivateKeys) {
	if keys == nil || keys.ctrutls == nil {
		return
	}
	for _, own := range keys.ctrutls.own {
		own.discard()
	}
	keys.ctrutls = nil
}

// ctrutlsError is a failed key exchange, with the alert that it asks for.
type ctrutlsError struct {
	err   error
	alert alert
}

func (e *ctrutlsError) Error() string { return "tls: " + e.err.Error() }
func (e *ctrutlsError) Unwrap() error { return e.err }

// ctrutlsWrap says whose fault err is. An error is the peer's fault where it, or
// one that it wraps, says so by a method PeerFault.
func ctrutlsWrap(peer, group string, err error) error {
	var fault interface{ PeerFault() bool }
	if errors.As(err, &fault) && fault.PeerFault() {
		return &ctrutlsError{fmt.Errorf("invalid %s key share for %s: %w", peer, group, err), alertIllegalParameter}
	}
	return &ctrutlsError{fmt.Errorf("key exchange %s failed: %w", group, err), alertInternalError}
}

// ctrutlsFail reports a failed key exchange of a registered group, with the
// alert that fits. It returns nil for every other error, which crypto/tls then
// reports as it always did.
func ctrutlsFail(c *Conn, err error) error {
	var failed *ctrutlsError
	if !errors.As(err, &failed) {
		return nil
	}
	c.sendAlert(failed.alert)
	return failed
}

// ctrutlsGuard turns a panic of an exchanger into an error that is ours. What
// was thrown is not printed: it could hold anything.
func ctrutlsGuard(err *error) {
	if v := recover(); v != nil {
		*err = &ctrutlsError{fmt.Errorf("key exchange panicked with a %T", v), alertInternalError}
	}
}
