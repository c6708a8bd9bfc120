package interop

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/interop/internal/clienthello"
	"github.com/ctrutls/ctrutls/interop/internal/outcome"
)

// shareSizes are the lengths in bytes of our groups' key shares: 32 of X25519,
// then a packed public key in the client's and a ciphertext in the server's.
var shareSizes = map[string]struct{ client, server int }{
	prime653:  {32 + 1062, 32 + 898},
	prime761:  {32 + 1237, 32 + 952},
	prime1277: {32 + 2076, 32 + 1597},
}

// captureHello returns a ClientHello that interop/client writes: with real key
// shares, to be sent as it is or spoilt. The client's end is to find the
// connection closed.
func captureHello(t testing.TB, args ...string) *clienthello.Hello {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	listener.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
	type capture struct {
		hello *clienthello.Hello
		err   error
	}
	done := make(chan capture, 1)
	go func() {
		h, err := readHello(listener)
		done <- capture{h, err}
	}()
	d := dial(t, program(t, hookClient, "client"), append([]string{listener.Addr().String(), "--server-name", "localhost"}, args...)...)
	got := <-done
	if got.err != nil {
		t.Fatalf("%v; client: %s", got.err, d.stderr)
	}
	if d.exit != outcome.Closed {
		t.Errorf("the client's exit status is %d where the server hung up, want %d", d.exit, outcome.Closed)
	}
	return got.hello
}

func readHello(listener net.Listener) (*clienthello.Hello, error) {
	conn, err := listener.Accept()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	msg, err := clienthello.NewReader(conn).Message()
	if err != nil {
		return nil, err
	}
	return clienthello.Parse(msg)
}

// share returns the key share of a group in a hello.
func share(t testing.TB, h *clienthello.Hello, group string) []byte {
	t.Helper()
	shares, err := h.KeyShares()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shares {
		if s.Group == ids[group] {
			return slices.Clone(s.Data)
		}
	}
	t.Fatalf("no share of %s among %d", group, len(shares))
	return nil
}

// marshal returns h as a handshake message.
func marshal(t testing.TB, h *clienthello.Hello) []byte {
	t.Helper()
	msg, err := h.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// talk is a TCP connection on which a test writes TLS records itself.
type talk struct {
	t    testing.TB
	conn net.Conn
	r    *clienthello.Reader
}

func connect(t testing.TB, e *endpoint) *talk {
	t.Helper()
	conn, err := net.DialTimeout("tcp", e.address, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return &talk{t, conn, clienthello.NewReader(conn)}
}

// write sends bytes, in pieces of a size if that is not 0.
func (k *talk) write(b []byte, size int) {
	k.t.Helper()
	if size == 0 {
		size = max(len(b), 1)
	}
	for piece := range slices.Chunk(b, size) {
		if _, err := k.conn.Write(piece); err != nil {
			k.t.Fatal(err)
		}
	}
}

// say sends a connection's first hello and returns the answer.
func (k *talk) say(h *clienthello.Hello) string {
	k.t.Helper()
	k.write(records(marshal(k.t, h)), 0)
	return k.answer()
}

// sayAgain sends the hello that follows a HelloRetryRequest.
func (k *talk) sayAgain(h *clienthello.Hello) string {
	k.t.Helper()
	k.write(clienthello.Records(clienthello.LaterVersion, marshal(k.t, h), 0), 0)
	return k.answer()
}

// records puts a connection's first message into as few records as it can.
func records(msg []byte) []byte { return clienthello.Records(clienthello.FirstVersion, msg, 0) }

// answer describes what the server says next: "hello" or "retry" and the group,
// "alert" and its number, or "closed".
func (k *talk) answer() string {
	k.t.Helper()
	msg, err := k.r.Message()
	var alert *clienthello.Alert
	switch {
	case errors.As(err, &alert):
		return alertNumber(alert.Description)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "closed"
	case err != nil:
		k.t.Fatal(err)
	}
	answer, err := clienthello.ParseAnswer(msg)
	if err != nil {
		k.t.Fatal(err)
	}
	if answer.Retry {
		return "retry " + groupName(answer.Group)
	}
	name := groupName(answer.Group)
	if want := shareSizes[name].server; ours(name) && len(answer.Share) != want {
		k.t.Errorf("the server's share of %s has %d bytes, want %d", name, len(answer.Share), want)
	}
	return "hello " + name
}

func alertNumber(n uint8) string { return fmt.Sprintf("alert %d", n) }

func groupName(id uint16) string {
	for name, known := range ids {
		if known == id {
			return name
		}
	}
	return fmt.Sprintf("%#04x", id)
}

// lives makes a full handshake and a request through a server that a test has
// just mistreated: by the same process, with the group.
func (e *endpoint) lives(group string, flags ...string) {
	e.t.Helper()
	e.alive()
	args := append([]string{e.address, "--ca", pki.CA, "--server-name", "localhost", "--group", group, "--get", "/lives"}, flags...)
	d := dial(e.t, program(e.t, hookClient, "client"), args...)
	c := d.last(e.t)
	if d.exit != outcome.OK || c.Group == nil || c.Group.ID != ids[group] || c.HTTP == nil || c.HTTP.Status != 200 {
		e.t.Errorf("afterwards a handshake failed: exit %d, %v", d.exit, c)
	}
}
