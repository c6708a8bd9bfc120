package interop

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/interop/internal/clienthello"
	"github.com/ctrutls/ctrutls/interop/internal/outcome"
)

// faultTargets are the servers that have to withstand the faults. Both accept
// all of our groups, 761 first, and X25519 after them.
func faultTargets(t *testing.T, test func(t *testing.T, e *endpoint)) {
	groups := []string{prime761, prime653, prime1277, x25519}
	t.Run("ctrutls", func(t *testing.T) {
		test(t, startServer(t, hookServer, "--alpn", "h2,http/1.1", "--group", prime761, "--group", prime653, "--group", prime1277, "--group", x25519))
	})
	t.Run("tlsproxy", func(t *testing.T) {
		test(t, startProxy(t, proxyOptions{groups: groups}))
	})
}

const (
	illegalParameter  = "alert 47"
	unexpectedMessage = "alert 10"
	decodeError       = "alert 50"
	handshakeFailure  = "alert 40"
)

// kem describes the coding of a parameter set's public key: n coefficients of
// 13 bits, little-endian, each below q; the bits left over are zero.
type kem struct{ n, q int }

var kems = map[string]kem{prime653: {653, 4621}, prime761: {761, 4591}, prime1277: {1277, 7879}}

// set overwrites coefficient i of the public key behind the 32 bytes of X25519.
func (k kem) set(share []byte, i, value int) []byte {
	pk := share[32:]
	for bit := range 13 {
		at := 13*i + bit
		pk[at/8] &^= 1 << (at % 8)
		pk[at/8] |= byte(value>>bit&1) << (at % 8)
	}
	return share
}

// pad sets the highest of the bits left over.
func (k kem) pad(share []byte) []byte {
	share[len(share)-1] |= 0x80
	return share
}

// lowOrder are the coordinates of the points whose product with any X25519
// scalar is zero (RFC 7748, section 6.1; https://cr.yp.to/ecdh.html#validate),
// the three not reduced among them. Bit 255 is ignored, so each has two
// encodings.
var lowOrder = []string{
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0100000000000000000000000000000000000000000000000000000000000000",
	"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
	"5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
}

// A key share that is not what it should be gets illegal_parameter, whatever is
// wrong with it. The server lives on.
func TestMalformedShares(t *testing.T) {
	type fault struct {
		name, want string
		spoil      func(good []byte) []byte
	}
	for _, group := range []string{prime761, prime653, prime1277} {
		k := kems[group]
		hello := captureHello(t, "--group", group)
		good := share(t, hello, group)
		if want := shareSizes[group].client; len(good) != want {
			t.Errorf("%s: the client's share has %d bytes, want %d", group, len(good), want)
		}
		faults := []fault{
			{"empty", illegalParameter, func(b []byte) []byte { return nil }},
			{"one byte", illegalParameter, func(b []byte) []byte { return b[:1] }},
			{"only x25519", illegalParameter, func(b []byte) []byte { return b[:32] }},
			{"only the KEM", illegalParameter, func(b []byte) []byte { return b[32:] }},
			{"one byte short", illegalParameter, func(b []byte) []byte { return b[:len(b)-1] }},
			{"one byte long", illegalParameter, func(b []byte) []byte { return append(b, 0) }},
			{"twice as long", illegalParameter, func(b []byte) []byte { return append(b, b...) }},
			{"halves swapped", illegalParameter, func(b []byte) []byte { return append(b[32:], b[:32]...) }},
			{"all zero", illegalParameter, func(b []byte) []byte { clear(b); return b }},
			{"all ones", illegalParameter, func(b []byte) []byte { return bytes.Repeat([]byte{0xff}, len(b)) }},
			{"first coefficient q", illegalParameter, func(b []byte) []byte { return k.set(b, 0, k.q) }},
			{"middle coefficient 2^13-1", illegalParameter, func(b []byte) []byte { return k.set(b, k.n/2, 1<<13-1) }},
			{"last coefficient q", illegalParameter, func(b []byte) []byte { return k.set(b, k.n-1, k.q) }},
			{"padding", illegalParameter, k.pad},
			// These two show that it is not the setting of bits that is refused.
			{"first coefficient q-1", "hello " + group, func(b []byte) []byte { return k.set(b, 0, k.q-1) }},
			{"last coefficient q-1", "hello " + group, func(b []byte) []byte { return k.set(b, k.n-1, k.q-1) }},
		}
		for _, point := range lowOrder {
			low, err := hex.DecodeString(point)
			if err != nil {
				t.Fatal(err)
			}
			high := slices.Clone(low)
			high[31] |= 0x80
			faults = append(faults,
				fault{"low-order " + point, illegalParameter, func(b []byte) []byte { copy(b, low); return b }},
				fault{"low-order, bit 255 set, " + point, illegalParameter, func(b []byte) []byte { copy(b, high); return b }})
		}
		faultTargets(t, func(t *testing.T, e *endpoint) {
			for _, f := range faults {
				h := *hello
				h.Extensions = slices.Clone(hello.Extensions)
				h.SetKeyShares([]clienthello.KeyShare{{Group: ids[group], Data: f.spoil(slices.Clone(good))}})
				if got := connect(t, e).say(&h); got != f.want {
					t.Errorf("%s, %s: %s, want %s", group, f.name, got, f.want)
				}
				e.lives(group)
			}
		})
	}
}

// What a client may and may not say about shares and groups.
func TestShareRules(t *testing.T) {
	hello := captureHello(t, "--group", prime761+","+prime653+","+x25519, "--share", prime761+","+prime653+","+x25519)
	entry := func(group string) clienthello.KeyShare {
		return clienthello.KeyShare{Group: ids[group], Data: share(t, hello, group)}
	}
	spoilt := func(group string) clienthello.KeyShare {
		return clienthello.KeyShare{Group: ids[group], Data: bytes.Repeat([]byte{0xff}, shareSizes[group].client)}
	}
	const grease = 0x2a2a // RFC 8701
	greaseShare := clienthello.KeyShare{Group: grease, Data: []byte{0}}
	faultTargets(t, func(t *testing.T, e *endpoint) {
		for _, c := range []struct {
			name   string
			groups []uint16
			shares []clienthello.KeyShare
			want   string
		}{
			{"as sent", groupIDs(prime761, prime653, x25519), []clienthello.KeyShare{entry(prime761), entry(prime653), entry(x25519)}, "hello " + prime761},
			{"the server's order counts", groupIDs(x25519, prime653, prime761), []clienthello.KeyShare{entry(x25519), entry(prime653), entry(prime761)}, "hello " + prime761},
			{"reserved values among them", append([]uint16{grease}, groupIDs(prime761)...), []clienthello.KeyShare{greaseShare, entry(prime761)}, "hello " + prime761},
			{"ours without a share", groupIDs(prime761, x25519), []clienthello.KeyShare{entry(x25519)}, "retry " + prime761},
			{"ours without any share", groupIDs(prime653), nil, "retry " + prime653},
			// Servers MAY refuse the next three (RFC 8446, section 4.2.8);
			// crypto/tls takes the first entry of a group that is offered, for its
			// own groups and for ours.
			{"two of one group", groupIDs(prime761), []clienthello.KeyShare{entry(prime761), entry(prime761)}, "hello " + prime761},
			{"two of one group, the second spoilt", groupIDs(prime761), []clienthello.KeyShare{entry(prime761), spoilt(prime761)}, "hello " + prime761},
			{"share of a group not offered", groupIDs(x25519), []clienthello.KeyShare{entry(prime761), entry(x25519)}, "hello " + x25519},
			{"two of one group, the first spoilt", groupIDs(prime761), []clienthello.KeyShare{spoilt(prime761), entry(prime761)}, illegalParameter},
			{"spoilt, with a good one of another group", groupIDs(prime761, x25519), []clienthello.KeyShare{spoilt(prime761), entry(x25519)}, illegalParameter},
			{"spoilt where it is not used", groupIDs(prime761, prime653), []clienthello.KeyShare{entry(prime761), spoilt(prime653)}, "hello " + prime761},
			{"an empty one of crypto/tls's own", groupIDs(prime761, x25519), []clienthello.KeyShare{entry(prime761), {Group: ids[x25519]}}, decodeError},
			{"nothing in common", []uint16{grease}, []clienthello.KeyShare{greaseShare, entry(prime761)}, handshakeFailure},
		} {
			h := *hello
			h.Extensions = slices.Clone(hello.Extensions)
			h.SetGroups(c.groups)
			h.SetKeyShares(c.shares)
			if got := connect(t, e).say(&h); got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
			e.lives(prime761)
		}
	})
}

// After a HelloRetryRequest the second hello has the one share that was asked
// for, and nothing else.
func TestSecondHello(t *testing.T) {
	hello := captureHello(t, "--group", prime761+","+prime653+","+x25519, "--share", prime761+","+prime653+","+x25519)
	entry := func(group string) clienthello.KeyShare {
		return clienthello.KeyShare{Group: ids[group], Data: share(t, hello, group)}
	}
	faultTargets(t, func(t *testing.T, e *endpoint) {
		for _, c := range []struct {
			name   string
			shares []clienthello.KeyShare
			want   string
		}{
			{"the share asked for", []clienthello.KeyShare{entry(prime761)}, "hello " + prime761},
			{"none", nil, illegalParameter},
			{"that of the first hello", []clienthello.KeyShare{entry(x25519)}, illegalParameter},
			{"another of ours", []clienthello.KeyShare{entry(prime653)}, illegalParameter},
			{"one too many", []clienthello.KeyShare{entry(prime761), entry(x25519)}, illegalParameter},
			{"short", []clienthello.KeyShare{{Group: ids[prime761], Data: entry(prime761).Data[:100]}}, illegalParameter},
			{"empty", []clienthello.KeyShare{{Group: ids[prime761]}}, illegalParameter},
		} {
			h := *hello
			h.Extensions = slices.Clone(hello.Extensions)
			h.SetKeyShares([]clienthello.KeyShare{entry(x25519)})
			k := connect(t, e)
			if got := k.say(&h); got != "retry "+prime761 {
				t.Errorf("first hello: %s, want a retry", got)
			}
			h.SetKeyShares(c.shares)
			if got := k.sayAgain(&h); got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
			e.lives(prime761)
		}
	})
}

func groupIDs(names ...string) []uint16 {
	list := make([]uint16, len(names))
	for i, name := range names {
		list[i] = ids[name]
	}
	return list
}

// A hello arrives whole whatever it is cut into: many records, many writes, and
// more than 4 KiB or 16 KiB of it. Its server name is read, its group used.
func TestHelloInPieces(t *testing.T) {
	faultTargets(t, func(t *testing.T, e *endpoint) {
		for _, c := range []struct {
			name string
			args []string
			size int // the least that the hello must have, bytes
		}{
			{"records of 1 byte", []string{"--record-size", "1"}, 1269},
			{"records of 100 bytes", []string{"--record-size", "100"}, 1269},
			{"writes of 1 byte", []string{"--segment-size", "1"}, 1269},
			{"writes of 536 bytes", []string{"--segment-size", "536"}, 1269},
			{"records of 300 and writes of 7 bytes", []string{"--record-size", "300", "--segment-size", "7"}, 1269},
			{"more than 4 KiB", []string{"--hello-size", "4200"}, 4200},
			{"more than 4 KiB in records of 1000 bytes", []string{"--hello-size", "4200", "--record-size", "1000"}, 4200},
			{"more than 4 KiB in writes of 1400 bytes", []string{"--hello-size", "4200", "--segment-size", "1400"}, 4200},
			{"more than a record", []string{"--hello-size", "20000"}, 20000},
			{"more than a record in writes of 100 bytes", []string{"--hello-size", "20000", "--segment-size", "100"}, 20000},
		} {
			args := append([]string{e.address, "--ca", pki.CA, "--server-name", "localhost", "--alpn", "h2", "--get", "/pieces"}, c.args...)
			d := dial(t, program(t, hookClient, "client"), args...)
			got := d.last(t)
			if d.exit != outcome.OK || got.Group == nil || got.Group.Name != prime761 || got.ALPN != "h2" || got.HTTP == nil || got.HTTP.Proto != "HTTP/2.0" {
				t.Errorf("%s: exit %d, %v", c.name, d.exit, got)
			}
			if got.HelloBytes < c.size {
				t.Errorf("%s: a hello of %d bytes, want %d", c.name, got.HelloBytes, c.size)
			}
		}
		e.alive()
	})
}

// Hellos that never become whole, or cannot: the server ends the connection and
// lives on.
func TestBrokenHello(t *testing.T) {
	captured := captureHello(t, "--group", prime761)
	hello := marshal(t, captured)
	whole := records(hello)
	tooLong := slices.Clone(hello)
	tooLong[1], tooLong[2], tooLong[3] = 0x02, 0, 0 // 128 KiB to come
	cutExtensions := slices.Clone(hello[:len(hello)-100])
	binary.BigEndian.PutUint16(cutExtensions[2:], uint16(len(cutExtensions)-4))
	captured.SetKeyShares(nil) // now it leads to a retry, before which there must be no more
	twice := append(marshal(t, captured), hello...)
	faultTargets(t, func(t *testing.T, e *endpoint) {
		for _, c := range []struct {
			name string
			send []byte
			want string
		}{
			{"nothing", nil, "closed"},
			{"one byte", whole[:1], "closed"},
			{"a record's header", whole[:5], "closed"},
			{"half a hello", whole[:len(whole)/2], "closed"},
			{"all but one byte", whole[:len(whole)-1], "closed"},
			{"a length beyond the limit", records(tooLong), "alert 80"},
			{"an extension that is cut off", records(cutExtensions), decodeError},
			{"a message of another type", records(append([]byte{0xff}, hello[1:]...)), unexpectedMessage},
			{"an empty record", []byte{clienthello.RecordHandshake, 3, 1, 0, 0}, unexpectedMessage},
			{"application data", []byte{23, 3, 3, 0, 1, 0}, "closed"}, // to crypto/tls this is not TLS at all
			{"two in one record", records(twice), unexpectedMessage},
		} {
			k := connect(t, e)
			k.write(c.send, 0)
			closeWrite(t, k)
			if got := k.answer(); got != c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
			e.lives(prime761)
		}
	})
}

// closeWrite tells the server that there is no more to come.
func closeWrite(t *testing.T, k *talk) {
	t.Helper()
	if err := k.conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
}

// What the operator reads about a handshake that a client's share ended: the
// group, the version, the server name and the alert.
func TestFailedHandshakeIsLogged(t *testing.T) {
	hello := captureHello(t, "--group", prime761)
	hello.SetKeyShares([]clienthello.KeyShare{{Group: ids[prime761], Data: make([]byte, shareSizes[prime761].client)}})
	e := startProxy(t, proxyOptions{groups: []string{prime761}})
	if got := connect(t, e).say(hello); got != illegalParameter {
		t.Fatalf("%s, want %s", got, illegalParameter)
	}
	line := e.line(func(line string) bool { return strings.Contains(line, "handshake failed") })
	var entry map[string]any
	if err := json.Unmarshal([]byte(line), &entry); err != nil {
		t.Fatalf("%v in %s", err, line)
	}
	for key, want := range map[string]string{"group": prime761, "version": "TLS 1.3", "sni": "localhost", "alert_sent": "illegal parameter"} {
		if entry[key] != want {
			t.Errorf("%s is %v, want %s, in %s", key, entry[key], want, line)
		}
	}
}

// Clients that begin a hello and never end it are cut off after the time given,
// and hold up nobody before that.
func TestStalledHandshakes(t *testing.T) {
	whole := records(marshal(t, captureHello(t, "--group", prime761)))
	e := startProxy(t, proxyOptions{extra: "timeouts:\n  handshake: 1s\n"})
	var stalled []*talk
	for range 64 {
		k := connect(t, e)
		k.write(whole[:len(whole)/2], 0)
		stalled = append(stalled, k)
	}
	e.lives(prime761)
	for _, k := range stalled {
		if got := k.answer(); got != "closed" {
			t.Errorf("a stalled handshake ended in %s", got)
		}
	}
	e.lives(prime761)
}
