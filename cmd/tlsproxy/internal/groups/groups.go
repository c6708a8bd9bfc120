package groups

import (
	"context"
	"crypto/fips140"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ctrutls/ctrutls/provider"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
	"github.com/ctrutls/ctrutls/tlsext"
)

// Default lists the groups that are served where a configuration names none,
// the most preferred first: ours, then all that crypto/tls enables itself.
func Default() []tls.CurveID { return tlsext.Preferences(tlsext.X25519CTRUPrime761) }

// ByName finds a group by its name, in any case.
func ByName(name string) (tls.CurveID, bool) { return tlsext.GroupByName(name) }

// Name returns a group's name, and its code point in hexadecimal if it has none.
func Name(id tls.CurveID) string { return tlsext.GroupName(id) }

// registered are IANA's names of groups where crypto/tls has others (TLS
// Supported Groups).
var registered = map[tls.CurveID]string{
	tls.X25519: "x25519", tls.CurveP256: "secp256r1", tls.CurveP384: "secp384r1", tls.CurveP521: "secp521r1",
}

// RegisteredName is Name in IANA's words, which other programs understand.
func RegisteredName(id tls.CurveID) string {
	if name, ok := registered[id]; ok {
		return name
	}
	return Name(id)
}

// Label is Name, and "none" for a handshake without a group.
func Label(id tls.CurveID) string {
	if id == 0 {
		return "none"
	}
	return Name(id)
}

// Names returns the names of several groups.
func Names(ids []tls.CurveID) []string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = Name(id)
	}
	return names
}

// All lists every group that a configuration can name.
func All() []tls.CurveID { return tlsext.Preferences(tlsext.Groups()...) }

// HookPresent reports whether this binary can serve the groups of ours.
func HookPresent() bool { return tlsext.Available() }

// RequireHook returns an error that says how to build, or what to write
// instead, if ids holds a group of ours that this binary cannot serve.
func RequireHook(ids []tls.CurveID) error {
	if HookPresent() {
		return nil
	}
	for _, id := range ids {
		if Ours(id) {
			return fmt.Errorf("group %s cannot be served: %w\nor name only groups of crypto/tls itself, such as tls: {groups: [X25519MLKEM768, X25519]}", Name(id), tlsext.ErrNoHook)
		}
	}
	return nil
}

// Register makes crypto/tls use p for the groups of ours, if this binary can.
// A binary that cannot may still serve the groups of crypto/tls itself.
func Register(p *provider.Provider) error {
	if !HookPresent() {
		return nil
	}
	return tlsext.Register(p)
}

// Ours reports whether a group needs the hook.
func Ours(id tls.CurveID) bool { return slices.Contains(tlsext.Groups(), id) }

// Scheme returns the parameter set of a group of ours, nil of every other.
func Scheme(id tls.CurveID) *ctruprime.Scheme {
	for _, s := range []*ctruprime.Scheme{ctruprime.Scheme653(), ctruprime.Scheme761(), ctruprime.Scheme1277()} {
		if provider.HybridName(s) == Name(id) {
			return s
		}
	}
	return nil
}

// Available reports whether crypto/tls serves a group in the mode that this
// process runs in: in FIPS 140 mode it knows approved groups only.
func Available(id tls.CurveID) bool {
	return !fips140.Enabled() || !Ours(id) && id != tls.X25519
}

// Unavailable lists those of ids that are not Available. It fails if that leaves
// none.
func Unavailable(ids []tls.CurveID) ([]tls.CurveID, error) {
	var out []tls.CurveID
	for _, id := range ids {
		if !Available(id) {
			out = append(out, id)
		}
	}
	if len(out) == len(ids) {
		return out, fmt.Errorf("none of %s is available in FIPS 140 mode, in which this process runs; name an approved group, such as X25519MLKEM768 or CurveP256", strings.Join(Names(ids), ", "))
	}
	return out, nil
}

// KeyExchange tells of a key exchange with one of our groups.
type KeyExchange struct {
	Fault        bool // it failed by our own doing
	Duration     time.Duration
	Queue, Batch time.Duration // as in provider.Timing
}

// WithObserver returns a context for a server's handshake under which f is called,
// in the handshake's goroutine, when its key exchange with a group of ours has ended.
// One whose time was up, or that was cut, is not at fault.
func WithObserver(ctx context.Context, f func(KeyExchange)) context.Context {
	return tlsext.WithObserver(ctx, func(e tlsext.Event) {
		var peer *provider.PeerError
		f(KeyExchange{
			Fault:    e.Err != nil && !errors.As(e.Err, &peer) && ctx.Err() == nil,
			Duration: e.Duration, Queue: e.Timing.Queue, Batch: e.Timing.Batch,
		})
	})
}

// Classical reports whether a group is safe against today's computers only.
func Classical(id tls.CurveID) bool {
	switch id {
	case tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521:
		return true
	}
	return false
}

// PostQuantum reports whether a group is meant to stay safe against quantum
// computers.
func PostQuantum(id tls.CurveID) bool { return !Classical(id) }

// OfCryptoTLS lists the groups that need no hook.
func OfCryptoTLS() []tls.CurveID { return tlsext.Preferences() }
