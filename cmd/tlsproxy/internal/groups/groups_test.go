package groups

import (
	"crypto/fips140"
	"crypto/tls"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/provider"
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

// TestAvailable compares what is said of each group with what crypto/tls does,
// in the mode that the process runs in.
func TestAvailable(t *testing.T) {
	p, err := provider.Open(provider.Config{KeyPoolSize: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := Register(p); err != nil {
		t.Fatal(err)
	}
	cert, err := certificates.SelfSigned("a.example")
	if err != nil {
		t.Fatal(err)
	}
	ids := All()
	if !HookPresent() {
		ids = OfCryptoTLS()
	}
	for _, id := range ids {
		if got := served(cert, id); got != Available(id) {
			t.Errorf("%s: available %v, served %v", Name(id), Available(id), got)
		}
	}
}

// served reports whether a handshake with nothing but a group succeeds.
func served(cert *tls.Certificate, id tls.CurveID) bool {
	near, far := net.Pipe()
	done := make(chan bool)
	go func() {
		server := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{*cert}, CurvePreferences: []tls.CurveID{id}})
		ok := server.Handshake() == nil
		far.Close()
		done <- ok
	}()
	client := tls.Client(near, &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{id}, MinVersion: tls.VersionTLS13})
	ok := client.Handshake() == nil && client.ConnectionState().CurveID == id
	near.Close()
	<-done
	return ok
}

// TestAvailableInFIPSMode runs TestAvailable in a process in that mode.
func TestAvailableInFIPSMode(t *testing.T) {
	process := exec.Command(os.Args[0], "-test.run=^TestAvailable$")
	process.Env = append(os.Environ(), "GODEBUG=fips140=on")
	if out, err := process.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestUnavailable needs no mode but the usual one, in which everything is there.
func TestUnavailable(t *testing.T) {
	if out, err := Unavailable(All()); len(out) > 0 != fips140.Enabled() || err != nil {
		t.Errorf("%v, %v", Names(out), err)
	}
}
