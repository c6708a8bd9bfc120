package tlsext

import (
	"context"
	"crypto/ecdh"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/ctrutls/ctrutls/provider"
)

// hookExchanger is what crypto/tls's hook calls; tlsext/gotls/_hook/ctrutls.go
// says what the methods do. It is an alias of an interface literal: the hook
// spells the same one, and identical literals are identical types, so neither
// side has to import the other.
type hookExchanger = interface {
	SharesFor(ctx context.Context, offered []tls.CurveID) []tls.CurveID
	ClientShare(ctx context.Context, group tls.CurveID, x *ecdh.PrivateKey) (share []byte, finish func(ctx context.Context, serverShare []byte) (secret []byte, err error), discard func(), err error)
	ServerShare(ctx context.Context, group tls.CurveID, clientShare []byte) (share, secret []byte, err error)
}

// hook is what a tls.CurveID has in a program that was built with gotls.
type hook interface {
	CtrutlsRegisterV1(names map[tls.CurveID]string, exchanger hookExchanger) error
}

func findHook() (hook, bool) {
	h, ok := any(tls.CurveID(0)).(hook)
	return h, ok
}

// Available reports whether the program was built with the hook, that is, with
// gotls. Without it [Register] fails and crypto/tls ignores the groups of this
// package wherever a CurvePreferences names them.
func Available() bool {
	_, ok := findHook()
	return ok
}

// howToBuild is what a program's builder has to type.
const howToBuild = "build it with gotls: go get -tool github.com/ctrutls/ctrutls/tlsext/gotls && go tool gotls build ./... (in place of go build)"

// ErrNoHook is what [Register] returns in a program that was built without gotls.
var ErrNoHook = errors.New("tlsext: this program was built without the hook in crypto/tls; " + howToBuild)

// Option is an option of [Register]: [ClientShares], [Observe].
type Option func(*exchanger)

// Register makes crypto/tls use p for the groups of this package, on clients and
// servers, wherever [tls.Config].CurvePreferences names one. A later Register
// replaces p and the options for handshakes that begin then; those under way
// finish with the p that they began with, so close it only once they have
// finished: a closed one's handshakes fail with internal_error.
//
// Register fails where p is nil, and with [ErrNoHook] where the program was built
// without gotls. It may be called concurrently with handshakes and with itself.
func Register(p *provider.Provider, opts ...Option) error {
	if p == nil {
		return errors.New("tlsext: Register needs a provider; provider.Open makes one")
	}
	return register(p, opts)
}

func register(engine engine, opts []Option) error {
	h, ok := findHook()
	if !ok {
		return noHook()
	}
	e := &exchanger{engine: engine}
	for _, opt := range opts {
		opt(e)
	}
	names := make(map[tls.CurveID]string)
	for _, g := range groups {
		names[g.id] = provider.HybridName(g.scheme)
	}
	return h.CtrutlsRegisterV1(names, e)
}

// noHook tells a program without the hook from one with another version's.
func noHook() error {
	if v, ok := any(tls.CurveID(0)).(interface{ CtrutlsHookVersion() int }); ok {
		return fmt.Errorf("tlsext: the hook in crypto/tls is that of another version of gotls (%d); %s", v.CtrutlsHookVersion(), howToBuild)
	}
	return ErrNoHook
}
