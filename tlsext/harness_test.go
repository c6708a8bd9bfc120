package tlsext_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/provider"
	"github.com/ctrutls/ctrutls/tlsext"
)

const (
	ctru653  = tlsext.X25519CTRUPrime653
	ctru761  = tlsext.X25519CTRUPrime761
	ctru1277 = tlsext.X25519CTRUPrime1277
	mlkem768 = tls.X25519MLKEM768
	p256mlkm = tls.SecP256r1MLKEM768
	x25519   = tls.X25519
	p256     = tls.CurveP256
	p384     = tls.CurveP384
)

// childEnv makes the test binary run one of children instead of the tests.
const childEnv = "TLSEXT_TEST_CHILD"

var (
	served *provider.Provider
	ca     authority
)

func TestMain(m *testing.M) {
	if !tlsext.Available() {
		fmt.Fprintln(os.Stderr, "tlsext: these tests need the hook in crypto/tls; run them by: go run ./tlsext/gotls test ./tlsext/...")
		os.Exit(1)
	}
	ca = newAuthority()
	if child := children[os.Getenv(childEnv)]; child != nil {
		child()
		return
	}
	var err error
	if served, err = provider.Open(provider.Config{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		panic(err)
	}
	if err := tlsext.Register(served); err != nil {
		panic(err)
	}
	status := m.Run()
	if plainProgram.dir != "" {
		os.RemoveAll(plainProgram.dir)
	}
	if err := served.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// register puts an engine in place for the rest of a test.
func register(t *testing.T, e tlsext.Engine, opts ...tlsext.Option) {
	t.Helper()
	if err := tlsext.RegisterEngine(e, opts...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tlsext.Register(served); err != nil {
			t.Error(err)
		}
	})
}

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority() authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tlsext test CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return authority{cert, key, pool}
}

func (a authority) issue(names ...string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

var serverCert = sync.OnceValue(func() tls.Certificate { return ca.issue("server.test", "public.test") })

func serverConfig(groups ...tls.CurveID) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{serverCert()}, CurvePreferences: groups}
}

func clientConfig(groups ...tls.CurveID) *tls.Config {
	return &tls.Config{RootCAs: ca.pool, ServerName: "server.test", CurvePreferences: groups}
}

// handshake is one handshake over a loopback connection, and what came of it.
type handshake struct {
	server, client *tls.Config
	// Contexts of the two handshakes; the test's where nil.
	serverCtx, clientCtx context.Context
	// mangle rewrites a handshake message that the client, or the server, sends
	// in the clear.
	mangleClient, mangleServer func(msg []byte) []byte

	serverState, clientState tls.ConnectionState
	serverErr, clientErr     error
	hellos                   []clientHello // what the client sent
	// The alerts that each side sent in the clear.
	serverAlerts, clientAlerts []tls.AlertError
}

// run performs the handshake and sends a byte each way.
func (h *handshake) run(t *testing.T) *handshake {
	t.Helper()
	serverConn, clientConn := loopback(t)
	if h.serverCtx == nil {
		h.serverCtx = t.Context()
	}
	if h.clientCtx == nil {
		h.clientCtx = t.Context()
	}
	serverWire := &wire{Conn: serverConn, mangle: h.mangleServer}
	clientWire := &wire{Conn: clientConn, mangle: h.mangleClient}
	var wg sync.WaitGroup
	wg.Go(func() {
		c := tls.Server(serverWire, h.server)
		defer c.Close()
		h.serverErr = exchange(h.serverCtx, c)
		h.serverState = c.ConnectionState()
	})
	wg.Go(func() {
		c := tls.Client(clientWire, h.client)
		defer c.Close()
		h.clientErr = exchange(h.clientCtx, c)
		h.clientState = c.ConnectionState()
	})
	wg.Wait()
	h.serverAlerts, h.clientAlerts = serverWire.alerts, clientWire.alerts
	for _, msg := range clientWire.sent {
		if msg[0] == typeClientHello {
			h.hellos = append(h.hellos, parseClientHello(t, msg))
		}
	}
	return h
}

func exchange(ctx context.Context, c *tls.Conn) error {
	if err := c.HandshakeContext(ctx); err != nil {
		return err
	}
	if _, err := c.Write([]byte{42}); err != nil {
		return err
	}
	b := make([]byte, 1)
	if _, err := io.ReadFull(c, b); err != nil {
		return err
	}
	if b[0] != 42 {
		return fmt.Errorf("received %d, want 42", b[0])
	}
	return nil
}

// loopback returns the two ends of a TCP connection.
func loopback(t *testing.T) (server, client net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return server, client
}

// succeeds runs the handshake and checks that both sides agree on the group, and
// on whether there was a HelloRetryRequest.
func (h *handshake) succeeds(t *testing.T, group tls.CurveID, retry bool) *handshake {
	t.Helper()
	h.run(t)
	if h.serverErr != nil || h.clientErr != nil {
		t.Fatalf("server: %v; client: %v", h.serverErr, h.clientErr)
	}
	if s, c := h.serverState, h.clientState; s.CurveID != group || c.CurveID != group {
		t.Fatalf("server negotiated %v, client %v, want %v", s.CurveID, c.CurveID, group)
	}
	if s, c := h.serverState, h.clientState; s.HelloRetryRequest != retry || c.HelloRetryRequest != retry {
		t.Fatalf("HelloRetryRequest: server %v, client %v, want %v", s.HelloRetryRequest, c.HelloRetryRequest, retry)
	}
	return h
}

// The alerts that matter here (RFC 8446, section 6).
const (
	alertBadRecordMAC     = tls.AlertError(20)
	alertHandshakeFailure = tls.AlertError(40)
	alertIllegalParameter = tls.AlertError(47)
	alertInternalError    = tls.AlertError(80)
)

// checkAlert checks that a side sent one alert, that one.
func checkAlert(t *testing.T, side string, sent []tls.AlertError, want tls.AlertError) {
	t.Helper()
	if len(sent) != 1 || sent[0] != want {
		t.Errorf("the %s sent the alerts %v, want %q alone", side, sent, want)
	}
}

// checkBadRecordMAC checks that a side failed because a record did not open.
func checkBadRecordMAC(t *testing.T, side string, err error) {
	t.Helper()
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "local error" || op.Err.Error() != alertBadRecordMAC.Error() {
		t.Errorf("the %s ended with %v, want %q", side, err, alertBadRecordMAC)
	}
}

// wire records the handshake messages that are written in the clear, and lets a
// test change them.
type wire struct {
	net.Conn
	mangle func(msg []byte) []byte
	sent   [][]byte
	alerts []tls.AlertError
}

const (
	recordAlert     = 21 // in the clear; an encrypted one looks like data
	recordHandshake = 22
	typeClientHello = 1
	typeServerHello = 2
)

// Write expects whole records, each with one whole handshake message where it is
// in the clear: crypto/tls sends them so.
func (w *wire) Write(b []byte) (int, error) {
	var out []byte
	for rest := b; len(rest) > 0; {
		n := 5 + int(binary.BigEndian.Uint16(rest[3:5]))
		record := rest[:n]
		rest = rest[n:]
		msg := record[5:]
		if record[0] == recordAlert {
			w.alerts = append(w.alerts, tls.AlertError(msg[1]))
		}
		if record[0] == recordHandshake && (msg[0] == typeClientHello || msg[0] == typeServerHello) {
			w.sent = append(w.sent, slices.Clone(msg))
			if w.mangle != nil {
				msg = w.mangle(slices.Clone(msg))
				binary.BigEndian.PutUint16(msg[2:4], uint16(len(msg)-4))
				record = append(slices.Clone(record[:5]), msg...)
				binary.BigEndian.PutUint16(record[3:5], uint16(len(msg)))
			}
		}
		out = append(out, record...)
	}
	if _, err := w.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// helloRetryRequest is the random of a ServerHello that is one (RFC 8446,
// section 4.1.3): SHA-256 of "HelloRetryRequest".
var helloRetryRequest = sha256.Sum256([]byte("HelloRetryRequest"))

func isHelloRetryRequest(msg []byte) bool {
	return msg[0] == typeServerHello && bytes.Equal(msg[6:38], helloRetryRequest[:])
}

// clientHello is what a test wants to know of one.
type clientHello struct {
	size   int // of the message, without the record's 5 bytes
	groups []tls.CurveID
	shares []share
}

type share struct {
	group tls.CurveID
	data  []byte
}

func (h clientHello) shareGroups() []tls.CurveID {
	var ids []tls.CurveID
	for _, s := range h.shares {
		ids = append(ids, s.group)
	}
	return ids
}

const (
	extSupportedGroups = 10
	extKeyShare        = 51
)

// parseClientHello reads a ClientHello, RFC 8446, section 4.1.2.
func parseClientHello(t *testing.T, msg []byte) clientHello {
	t.Helper()
	h := clientHello{size: len(msg)}
	extensions := msg[helloExtensions(msg):]
	for r := reader(extensions); len(r) > 0; {
		kind := r.uint16()
		body := r.vector16()
		switch kind {
		case extSupportedGroups:
			for list := body.vector16(); len(list) > 0; {
				h.groups = append(h.groups, tls.CurveID(list.uint16()))
			}
		case extKeyShare:
			for list := body.vector16(); len(list) > 0; {
				h.shares = append(h.shares, share{tls.CurveID(list.uint16()), list.vector16()})
			}
		}
	}
	return h
}

// helloExtensions is the offset of the first extension in a ClientHello or a
// ServerHello: behind the length of them all.
func helloExtensions(msg []byte) int {
	at := 4 + 2 + 32
	at += 1 + int(msg[at]) // session id
	if msg[0] == typeClientHello {
		at += 2 + int(binary.BigEndian.Uint16(msg[at:])) // cipher suites
		at += 1 + int(msg[at])                           // compression methods
	} else {
		at += 2 + 1 // the one chosen of each
	}
	return at + 2
}

// reader takes a message apart; a message that is too short panics.
type reader []byte

func (r *reader) uint16() uint16 {
	v := binary.BigEndian.Uint16(*r)
	*r = (*r)[2:]
	return v
}

func (r *reader) vector16() reader {
	n := r.uint16()
	v := (*r)[:n]
	*r = (*r)[n:]
	return v
}

// replaceShare returns a mangle function that replaces the key share of group in
// a ClientHello or a ServerHello, and counts in hits how often it did.
func replaceShare(group tls.CurveID, hits *int, f func(share []byte) []byte) func([]byte) []byte {
	return func(msg []byte) []byte {
		first := helloExtensions(msg)
		for at := first; at < len(msg); at += 4 + int(binary.BigEndian.Uint16(msg[at+2:])) {
			if binary.BigEndian.Uint16(msg[at:]) != extKeyShare {
				continue
			}
			lengths := []int{first - 2, at + 2} // of vectors around the share
			entry := at + 4
			if msg[0] == typeClientHello {
				lengths = append(lengths, entry)
				entry += 2
			}
			for tls.CurveID(binary.BigEndian.Uint16(msg[entry:])) != group {
				entry += 4 + int(binary.BigEndian.Uint16(msg[entry+2:]))
				if entry >= len(msg) {
					return msg
				}
			}
			size := int(binary.BigEndian.Uint16(msg[entry+2:]))
			old := msg[entry+4 : entry+4+size]
			fresh := f(slices.Clone(old))
			*hits++
			for _, length := range append(lengths, entry+2) {
				n := int(binary.BigEndian.Uint16(msg[length:])) + len(fresh) - size
				binary.BigEndian.PutUint16(msg[length:], uint16(n))
			}
			return slices.Concat(msg[:entry+4], fresh, msg[entry+4+size:])
		}
		return msg
	}
}
