package tlsext

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	"github.com/ctrutls/ctrutls/provider"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// The hybrid groups, in the private-use range of RFC 8446, section 4.2.7. Each is
// X25519 followed by CTRU-Prime, in the shares and in the secret:
//
//	                    client's share   server's share   secret
//	X25519CTRUPrime653  32+1062 bytes    32+ 898 bytes    32+32 bytes
//	X25519CTRUPrime761  32+1237 bytes    32+ 952 bytes    32+32 bytes
//	X25519CTRUPrime1277 32+2076 bytes    32+1597 bytes    32+32 bytes
//
// [X25519CTRUPrime761] is the one to use unless there is a reason for another.
const (
	X25519CTRUPrime653  tls.CurveID = 0xFE65
	X25519CTRUPrime761  tls.CurveID = 0xFE76
	X25519CTRUPrime1277 tls.CurveID = 0xFEC7
)

type group struct {
	id     tls.CurveID
	scheme *ctruprime.Scheme
}

var groups = []group{
	{X25519CTRUPrime653, ctruprime.Scheme653()},
	{X25519CTRUPrime761, ctruprime.Scheme761()},
	{X25519CTRUPrime1277, ctruprime.Scheme1277()},
}

// Groups returns the groups of this package, the smallest parameters first.
func Groups() []tls.CurveID {
	ids := make([]tls.CurveID, len(groups))
	for i, g := range groups {
		ids[i] = g.id
	}
	return ids
}

// Preferences returns a value for [tls.Config].CurvePreferences: the groups
// given, then those that crypto/tls enables by default, in its order. A list
// written by hand that stops short of them refuses peers that the defaults
// would have served, or drops their post-quantum groups.
func Preferences(first ...tls.CurveID) []tls.CurveID {
	list := slices.Clone(first)
	for _, id := range stdGroups {
		if id.byDefault && !slices.Contains(list, id.id) {
			list = append(list, id.id)
		}
	}
	return list
}

// stdGroup is a group of crypto/tls.
type stdGroup struct {
	id        tls.CurveID
	names     []string // the first is what GroupName says
	classical bool
	byDefault bool
}

// stdGroups are in the order of crypto/tls. The names are those of its
// constants, of the IANA registry "TLS Supported Groups", and of NIST.
var stdGroups = []stdGroup{
	{id: tls.X25519MLKEM768, names: []string{"X25519MLKEM768"}, byDefault: true},
	{id: tls.SecP256r1MLKEM768, names: []string{"SecP256r1MLKEM768"}, byDefault: true},
	{id: tls.SecP384r1MLKEM1024, names: []string{"SecP384r1MLKEM1024"}, byDefault: true},
	{id: tls.X25519, names: []string{"X25519"}, classical: true, byDefault: true},
	{id: tls.CurveP256, names: []string{"CurveP256", "secp256r1", "P-256", "P256"}, classical: true, byDefault: true},
	{id: tls.CurveP384, names: []string{"CurveP384", "secp384r1", "P-384", "P384"}, classical: true, byDefault: true},
	{id: tls.CurveP521, names: []string{"CurveP521", "secp521r1", "P-521", "P521"}, classical: true, byDefault: true},
}

// GroupByName returns the group with that name, in any case: one of ours or one
// of crypto/tls's, those by their IANA and NIST names too ("secp256r1",
// "P-256"). It needs no hook.
func GroupByName(name string) (id tls.CurveID, ok bool) {
	for _, g := range groups {
		if strings.EqualFold(name, provider.HybridName(g.scheme)) {
			return g.id, true
		}
	}
	for _, g := range stdGroups {
		if slices.ContainsFunc(g.names, func(n string) bool { return strings.EqualFold(n, name) }) {
			return g.id, true
		}
	}
	return 0, false
}

// GroupName returns the name of a group, with or without the hook, and "0x1234"
// for one that neither this package nor crypto/tls knows. With the hook,
// [tls.CurveID.String] gives the same names once [Register] was called.
func GroupName(id tls.CurveID) string {
	if g := groupOf(id); g != nil {
		return provider.HybridName(g.scheme)
	}
	for _, g := range stdGroups {
		if g.id == id {
			return g.names[0]
		}
	}
	return fmt.Sprintf("%#04x", uint16(id))
}

// groupOf returns the group of this package with that code point, or nil.
func groupOf(id tls.CurveID) *group {
	for i := range groups {
		if groups[i].id == id {
			return &groups[i]
		}
	}
	return nil
}

func isOurs(id tls.CurveID) bool { return groupOf(id) != nil }

func isClassical(id tls.CurveID) bool {
	return slices.ContainsFunc(stdGroups, func(g stdGroup) bool { return g.id == id && g.classical })
}
