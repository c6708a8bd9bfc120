package groups

import (
	"crypto/tls"
	"fmt"
	"slices"

	"github.com/ctrutls/ctrutls/provider"
	"github.com/ctrutls/ctrutls/tlsext"
)

// Default lists the groups that are served where a configuration names none,
// the most preferred first: ours, then all that crypto/tls enables itself.
func Default() []tls.CurveID { return tlsext.Preferences(tlsext.X25519CTRUPrime761) }

// ByName finds a group by its name, in any case.
func ByName(name string) (tls.CurveID, bool) { return tlsext.GroupByName(name) }

// Name returns a group's name, and its code point in hexadecimal if it has none.
func Name(id tls.CurveID) string { return tlsext.GroupName(id) }

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
		if slices.Contains(tlsext.Groups(), id) {
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
