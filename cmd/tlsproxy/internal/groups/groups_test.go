package groups

import (
	"crypto/tls"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/tlsext"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDefault(t *testing.T) {
	ids := Default()
	if want := []tls.CurveID{tlsext.X25519CTRUPrime761, tls.X25519MLKEM768}; !slices.Equal(ids[:2], want) {
		t.Errorf("the default begins with %v", Names(ids))
	}
	for _, id := range []tls.CurveID{tls.X25519, tls.CurveP256} {
		if !slices.Contains(ids, id) {
			t.Errorf("%s is missing", Name(id))
		}
	}
}

func TestNames(t *testing.T) {
	for _, id := range All() {
		for _, name := range []string{Name(id), strings.ToUpper(Name(id))} {
			if got, ok := ByName(name); !ok || got != id {
				t.Errorf("%s: %v, %v", name, got, ok)
			}
		}
		if Classical(id) == PostQuantum(id) || PostQuantum(id) != (strings.Contains(Name(id), "MLKEM") || strings.Contains(Name(id), "CTRU")) {
			t.Errorf("%s: classical %v, post-quantum %v", Name(id), Classical(id), PostQuantum(id))
		}
	}
	for _, id := range tlsext.Groups() {
		if !slices.Contains(All(), id) {
			t.Errorf("%s cannot be named", Name(id))
		}
	}
	if _, ok := ByName("X25519CTRUPrime762"); ok {
		t.Error("an unknown name was found")
	}
}

// TestRequireHook holds for both kinds of build: this test is one of them.
func TestRequireHook(t *testing.T) {
	std := []tls.CurveID{tls.X25519MLKEM768, tls.X25519}
	if err := RequireHook(std); err != nil {
		t.Errorf("crypto/tls's own groups: %v", err)
	}
	err := RequireHook(append(std, tlsext.X25519CTRUPrime1277))
	if HookPresent() {
		if err != nil {
			t.Error(err)
		}
		return
	}
	for _, want := range []string{"group X25519CTRUPrime1277 cannot be served", "gotls", "groups: [X25519MLKEM768, X25519]"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}
