package hook

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/ctrutls/ctrutls/provider"
	"github.com/ctrutls/ctrutls/tlsext"
)

// MissingError is the wish for a group that this build does not have.
type MissingError struct{ Group string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("interop: this program was built without the hook in crypto/tls and cannot speak %s: build it with `go tool gotls build`", e.Group)
}

// Open registers the groups of tlsext where the hook is there. connections is
// how many handshakes are to come: few of them make no pool of keys. The
// function returned releases what Open took.
func Open(connections int) (release func(), err error) {
	if !tlsext.Available() {
		return func() {}, nil
	}
	cfg := provider.Config{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if connections < provider.DefaultKeyPoolSize {
		cfg.KeyPoolSize = -1
	}
	p, err := provider.Open(cfg)
	if err != nil {
		return nil, err
	}
	if err := tlsext.Register(p); err != nil {
		p.Close()
		return nil, err
	}
	return func() { p.Close() }, nil
}

// Groups finds groups by name, in any case. A group of ours is a MissingError
// in a build without the hook.
func Groups(names []string) ([]tls.CurveID, error) {
	var ids []tls.CurveID
	for _, name := range names {
		id, ok := tlsext.GroupByName(name)
		if !ok {
			return nil, fmt.Errorf("interop: unknown group %q", name)
		}
		if ours(id) && !tlsext.Available() {
			return nil, &MissingError{tlsext.GroupName(id)}
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Default is what the programs offer where nothing is asked for: nil, which
// means crypto/tls's own list, in a build without the hook.
func Default() []tls.CurveID {
	if !tlsext.Available() {
		return nil
	}
	return []tls.CurveID{tlsext.X25519CTRUPrime761, tls.X25519MLKEM768, tls.X25519, tls.CurveP256}
}

func ours(id tls.CurveID) bool { return slices.Contains(tlsext.Groups(), id) }

// CheckShares refuses shares of groups that are not offered.
func CheckShares(shares, offered []tls.CurveID) error {
	for _, id := range shares {
		if !slices.Contains(offered, id) {
			return fmt.Errorf("interop: a share of %v was asked for, which is not offered", id)
		}
	}
	if len(shares) > 0 && !slices.ContainsFunc(offered, ours) {
		return fmt.Errorf("interop: crypto/tls chooses the shares where no group of tlsext is offered")
	}
	return nil
}

// WithShares has a handshake of ctx send these key shares; none leaves the
// default.
func WithShares(ctx context.Context, shares []tls.CurveID) context.Context {
	if len(shares) == 0 {
		return ctx
	}
	return tlsext.WithClientShares(ctx, shares...)
}
