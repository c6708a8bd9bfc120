package tlsext_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// plainProgram is testdata/plain as everybody else's go command builds it.
var plainProgram struct {
	build sync.Once
	dir   string // TestMain removes it
	err   error
}

func plainPath(t *testing.T) string {
	t.Helper()
	p := &plainProgram
	p.build.Do(func() {
		if p.dir, p.err = os.MkdirTemp("", "tlsext-plain-"); p.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-o", p.dir, "./testdata/plain")
		cmd.Env = append(os.Environ(), "GOFLAGS=") // where gotls puts the overlay
		if out, err := cmd.CombinedOutput(); err != nil {
			p.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if p.err != nil {
		t.Fatal(p.err)
	}
	return filepath.Join(p.dir, "plain")
}

// plainRequest and plainReply are the words of testdata/plain.
type plainRequest struct {
	Groups         []tls.CurveID
	Hello          bool
	Client, Server string
	Roots, Cert    []byte
	Key            []byte
	ServerName     string
}

type plainReply struct {
	Available bool
	Register  string
	Hello     []byte
	Group     tls.CurveID
	Retry     bool
	Err       string
}

// askPlain may run in a goroutine once plainPath has been called in the test's own.
func askPlain(t *testing.T, request plainRequest) plainReply {
	t.Helper()
	path := plainPath(t)
	stdin, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(stdin), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%v\n%s", err, stderr.String())
		return plainReply{}
	}
	var reply plainReply
	if err := json.Unmarshal(out, &reply); err != nil {
		t.Errorf("%v in %s", err, out)
	}
	if reply.Err != "" {
		t.Errorf("the plain program failed: %s", reply.Err)
	}
	return reply
}

// Without gotls everything compiles, and says what is missing.
func TestWithoutTheHook(t *testing.T) {
	reply := askPlain(t, plainRequest{Hello: true, Groups: ids(ctru761, x25519), ServerName: "server.test"})
	if reply.Available {
		t.Error("Available is true")
	}
	for _, words := range []string{"tlsext: ", "gotls", "go get -tool github.com/ctrutls/ctrutls/tlsext/gotls", "go tool gotls build ./..."} {
		if !strings.Contains(reply.Register, words) {
			t.Errorf("Register's error does not say %q: %s", words, reply.Register)
		}
	}
}

// A ClientHello whose list names none of our groups is, with the hook and a
// provider registered, what it is without the hook.
func TestClientHelloUntouched(t *testing.T) {
	for _, list := range [][]tls.CurveID{nil, ids(x25519, mlkem768), ids(p384, p256, x25519), ids(p256mlkm), ids(0xFE01, x25519)} {
		t.Run(fmt.Sprint(list), func(t *testing.T) {
			plain := askPlain(t, plainRequest{Hello: true, Groups: list, ServerName: "server.test"})
			if len(plain.Hello) < 5 {
				t.Fatalf("no ClientHello: %x", plain.Hello)
			}
			want := parseClientHello(t, plain.Hello[5:])
			got := (&handshake{server: serverConfig(), client: clientConfig(list...)}).run(t).hellos[0]
			if got.size != want.size || !slices.Equal(got.groups, want.groups) || !slices.Equal(got.shareGroups(), want.shareGroups()) {
				t.Errorf("with the hook %d bytes, groups %v, shares %v;\nwithout it %d bytes, groups %v, shares %v",
					got.size, got.groups, got.shareGroups(), want.size, want.groups, want.shareGroups())
			}
		})
	}
}

// Our peers, built without gotls: no handshake of theirs needs a retry because
// of our groups.
func TestPlainPeers(t *testing.T) {
	ours := ids(ctru761, mlkem768, x25519, p256)
	for _, tc := range []struct {
		name  string
		plain []tls.CurveID
		want  tls.CurveID
	}{
		{"defaults", nil, mlkem768},
		{"our list", ours, mlkem768},
		{"X25519", ids(x25519, p256), x25519},
	} {
		t.Run("server/"+tc.name, func(t *testing.T) {
			plainPath(t)
			withListener(t, func(l net.Listener) {
				cert, key := pemPair(t, serverCert())
				var reply plainReply
				var wg sync.WaitGroup
				wg.Go(func() {
					reply = askPlain(t, plainRequest{Server: l.Addr().String(), Groups: tc.plain, Cert: cert, Key: key})
				})
				conn, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				c := tls.Client(conn, clientConfig(ours...))
				defer c.Close()
				err = exchange(t.Context(), c)
				wg.Wait()
				checkPlain(t, err, c.ConnectionState(), reply, tc.want)
			})
		})
		t.Run("client/"+tc.name, func(t *testing.T) {
			plainPath(t)
			withListener(t, func(l net.Listener) {
				var reply plainReply
				var wg sync.WaitGroup
				wg.Go(func() {
					reply = askPlain(t, plainRequest{Client: l.Addr().String(), Groups: tc.plain, ServerName: "server.test",
						Roots: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})})
				})
				conn, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				c := tls.Server(conn, serverConfig(ours...))
				defer c.Close()
				err = exchange(t.Context(), c)
				wg.Wait()
				checkPlain(t, err, c.ConnectionState(), reply, tc.want)
			})
		})
	}
}

func checkPlain(t *testing.T, err error, state tls.ConnectionState, reply plainReply, want tls.CurveID) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if state.CurveID != want || reply.Group != want {
		t.Errorf("negotiated %v here and %v there, want %v", state.CurveID, reply.Group, want)
	}
	if state.HelloRetryRequest || reply.Retry {
		t.Error("there was a HelloRetryRequest")
	}
}

func withListener(t *testing.T, f func(net.Listener)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// Should the plain program die before it dials, Accept must not wait for ever.
	if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	f(l)
}

func pemPair(t *testing.T, c tls.Certificate) (cert, key []byte) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
