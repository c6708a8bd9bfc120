package tlsext

import (
	"context"
	"crypto/tls"
	"slices"
)

// ClientShares sets, for every handshake of a client, which groups its first
// ClientHello carries key shares for. Groups that the handshake does not offer
// are left out; if none is left, the first one offered gets a share. Without
// ClientShares, or with an empty list, a client sends up to three, see
// the package's documentation.
//
// A group without a share costs a HelloRetryRequest, one round trip, if the
// server picks it. With ClientShares(tls.X25519) the hello fits into one packet,
// and a server that insists on a post-quantum group asks for its share.
func ClientShares(groups ...tls.CurveID) Option {
	return func(e *exchanger) { e.shares = slices.Clone(groups) }
}

type clientSharesKey struct{}

// WithClientShares returns a context that does what [ClientShares] does for the
// handshakes that run under it, whatever was set at [Register]. It has to reach
// the handshake: by [tls.Conn.HandshakeContext], [tls.Dialer.DialContext], or the
// context of an HTTP request that has to dial.
func WithClientShares(ctx context.Context, groups ...tls.CurveID) context.Context {
	return context.WithValue(ctx, clientSharesKey{}, slices.Clone(groups))
}

// SharesFor is called by the hook; see hookExchanger.
func (e *exchanger) SharesFor(ctx context.Context, offered []tls.CurveID) []tls.CurveID {
	shares := e.shares
	if set, ok := ctx.Value(clientSharesKey{}).([]tls.CurveID); ok {
		shares = set
	}
	if len(shares) > 0 {
		return shares
	}
	return defaultShares(offered)
}

// defaultShares picks one group of each kind that is offered: ours, crypto/tls's
// post-quantum ones, the classical ones. Servers with crypto/tls pick a
// post-quantum group whether they find a share of it or not, so the second saves
// them a HelloRetryRequest; the third does so for servers with neither.
func defaultShares(offered []tls.CurveID) []tls.CurveID {
	kinds := []struct {
		is    func(tls.CurveID) bool
		usual tls.CurveID // what most servers want of this kind
	}{
		{isOurs, 0},
		{func(id tls.CurveID) bool { return !isOurs(id) && !isClassical(id) }, tls.X25519MLKEM768},
		{isClassical, tls.X25519},
	}
	var shares []tls.CurveID
	for _, kind := range kinds {
		first := slices.IndexFunc(offered, kind.is)
		switch {
		case first < 0:
		case first > 0 && slices.Contains(offered, kind.usual):
			shares = append(shares, kind.usual)
		default:
			shares = append(shares, offered[first])
		}
	}
	return shares
}
