package tlsext_test

import (
	"crypto/tls"
	"slices"
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/tlsext"
)

func TestGroupNames(t *testing.T) {
	for name, id := range map[string]tls.CurveID{
		"X25519CTRUPrime653": 0xFE65, "x25519ctruprime761": 0xFE76, "X25519CTRUPRIME1277": 0xFEC7,
		"X25519MLKEM768": 4588, "SecP256r1MLKEM768": 4587, "SecP384r1MLKEM1024": 4589, "x25519": 29,
		"CurveP256": 23, "secp256r1": 23, "P-256": 23, "p384": 24, "secp521r1": 25,
	} {
		if got, ok := tlsext.GroupByName(name); !ok || got != id {
			t.Errorf("GroupByName(%q) is %v, %v; want %d", name, got, ok, id)
		}
	}
	for _, name := range []string{"", "X25519CTRUPrime", "P-255", "0x1234"} {
		if got, ok := tlsext.GroupByName(name); ok {
			t.Errorf("GroupByName(%q) is %v, want none", name, got)
		}
	}
	for _, id := range tlsext.Preferences(tlsext.Groups()...) {
		if name := tlsext.GroupName(id); name != id.String() {
			t.Errorf("GroupName(%d) is %q, but CurveID.String says %q", id, name, id)
		} else if back, ok := tlsext.GroupByName(name); !ok || back != id {
			t.Errorf("GroupByName(%q) is %v, %v; want %d", name, back, ok, id)
		}
	}
	if got := tlsext.GroupName(0x12); got != "0x0012" {
		t.Errorf("GroupName(0x12) is %q", got)
	}
}

// Preferences keeps what crypto/tls enables by default: the hello of a client
// with no list at all has the same groups.
func TestPreferences(t *testing.T) {
	h := (&handshake{server: serverConfig(), client: clientConfig()}).run(t)
	if h.clientErr != nil {
		t.Fatal(h.clientErr)
	}
	defaults := h.hellos[0].groups
	if got := tlsext.Preferences(); !slices.Equal(got, defaults) {
		t.Errorf("Preferences() is %v, but the defaults are %v", got, defaults)
	}
	if got, want := tlsext.Preferences(ctru761, x25519), slices.Concat(ids(ctru761, x25519), slices.DeleteFunc(defaults, func(id tls.CurveID) bool { return id == x25519 })); !slices.Equal(got, want) {
		t.Errorf("Preferences(ours, X25519) is %v, want %v", got, want)
	}
}

// The groups are in RFC 8446's private-use range, each with its own code point.
func TestCodePoints(t *testing.T) {
	groups := tlsext.Groups()
	if len(groups) != 3 || len(slices.Compact(slices.Sorted(slices.Values(groups)))) != 3 {
		t.Errorf("Groups() is %v", groups)
	}
	for _, id := range groups {
		if id < 0xFE00 || id > 0xFEFF || !strings.HasPrefix(tlsext.GroupName(id), "X25519CTRUPrime") {
			t.Errorf("%#x is called %q", uint16(id), tlsext.GroupName(id))
		}
	}
}
