package interop

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/interop/internal/outcome"
)

// Names of the groups in the tests.
const (
	prime653  = "X25519CTRUPrime653"
	prime761  = "X25519CTRUPrime761"
	prime1277 = "X25519CTRUPrime1277"
	mlkem     = "X25519MLKEM768"
	x25519    = "X25519"
	p256      = "CurveP256"
)

// ids are the code points: ours from the project's design, the others IANA's.
var ids = map[string]uint16{prime653: 0xFE65, prime761: 0xFE76, prime1277: 0xFEC7, mlkem: 4588, x25519: 29, p256: 23}

// ours reports whether a stock Go peer lacks the group.
func ours(group string) bool { return ids[group]>>8 == 0xFE }

// endpoint is a TLS server in a process of its own.
type endpoint struct {
	*process
	address string
}

// serverHandshake is a line of interop/server's output.
type serverHandshake struct {
	Event string
	outcome.Handshake
}

// startServer runs interop/server of a build, with the tests' certificate.
func startServer(t testing.TB, b build, args ...string) *endpoint {
	t.Helper()
	args = append([]string{"--cert", pki.ServerCert, "--key", pki.ServerKey}, args...)
	e := &endpoint{process: start(t, program(t, b, "server"), args...)}
	var hello struct{ Address string }
	line := e.line(func(line string) bool { return strings.Contains(line, `"event":"listening"`) })
	if err := json.Unmarshal([]byte(line), &hello); err != nil {
		t.Fatalf("%v in %s", err, line)
	}
	e.address = hello.Address
	return e
}

// handshake returns what interop/server printed about its next one.
func (e *endpoint) handshake() serverHandshake {
	e.t.Helper()
	var h serverHandshake
	line := e.line(func(line string) bool { return strings.Contains(line, `"event":"handshake"`) })
	if err := json.Unmarshal([]byte(line), &h); err != nil {
		e.t.Fatalf("%v in %s", err, line)
	}
	return h
}
