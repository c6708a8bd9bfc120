package tlsext_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ctrutls/ctrutls/provider"
	"github.com/ctrutls/ctrutls/tlsext"
)

// lowOrderPoints are X25519 public keys whose shared secret is zero (RFC 7748,
// section 6.1): 0, 1, the points of order 8, p-1, p and p+1.
var lowOrderPoints = [][32]byte{
	{},
	{1},
	{0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a,
		0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00},
	{0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef, 0x5b,
		0x04, 0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f, 0x11, 0x57},
	almostP(0xec), almostP(0xed), almostP(0xee),
}

// almostP is a number near 2^255 - 19, little-endian, with that lowest byte.
func almostP(low byte) (p [32]byte) {
	for i := range p {
		p[i] = 0xff
	}
	p[0], p[31] = low, 0x7f
	return p
}

// malformed is a way to spoil a share. n is the length of the KEM's half.
type malformed struct {
	name string
	f    func(share []byte) []byte
}

func malformedShares() []malformed {
	m := []malformed{
		{"empty", func([]byte) []byte { return nil }},
		{"a byte short", func(b []byte) []byte { return b[:len(b)-1] }},
		{"a byte long", func(b []byte) []byte { return append(b, 0) }},
		{"one byte", func(b []byte) []byte { return b[:1] }},
		{"only X25519", func(b []byte) []byte { return b[:32] }},
		{"only the KEM", func(b []byte) []byte { return b[32:] }},
		{"twice", func(b []byte) []byte { return append(b, b...) }},
	}
	for i, point := range lowOrderPoints {
		m = append(m, malformed{fmt.Sprintf("low order %d", i), func(b []byte) []byte { copy(b, point[:]); return b }})
	}
	return m
}

// setCoefficient overwrites the i-th 13-bit number behind the X25519 key.
func setCoefficient(share []byte, i, value int) {
	for bit := range 13 {
		at := 13*i + bit
		mask := byte(1) << (at % 8)
		share[32+at/8] &^= mask
		if value>>bit&1 == 1 {
			share[32+at/8] |= mask
		}
	}
}

var coefficients = []struct {
	group tls.CurveID
	n, q  int
}{{ctru653, 653, 4621}, {ctru761, 761, 4591}, {ctru1277, 1277, 7879}}

// A server answers a share that is not one with illegal_parameter, and goes on.
func TestMalformedClientShares(t *testing.T) {
	for _, set := range coefficients {
		t.Run(set.group.String(), func(t *testing.T) {
			cases := malformedShares()
			for _, i := range []int{0, 1, rand.IntN(set.n), set.n - 1} {
				for _, value := range []int{set.q, 1<<13 - 1} {
					cases = append(cases, malformed{fmt.Sprintf("coefficient %d is %d", i, value),
						func(b []byte) []byte { setCoefficient(b, i, value); return b }})
				}
			}
			cases = append(cases, malformed{"padding", func(b []byte) []byte { b[len(b)-1] |= 0x80; return b }})
			for _, tc := range cases {
				t.Run(tc.name, func(t *testing.T) { refusedByServer(t, set.group, tc.f) })
			}
			t.Run("the server lives on", func(t *testing.T) {
				(&handshake{server: serverConfig(set.group), client: clientConfig(set.group)}).succeeds(t, set.group, false)
			})
			// The largest values that are still valid do not upset it: the shares
			// differ from what the client sent, so it is the transcript that fails.
			t.Run("coefficient q-1", func(t *testing.T) {
				hits := 0
				h := (&handshake{
					server: serverConfig(set.group), client: clientConfig(set.group),
					mangleClient: replaceShare(set.group, &hits, func(b []byte) []byte {
						for i := range set.n {
							setCoefficient(b, i, set.q-1)
						}
						return b
					}),
				}).run(t)
				checkHits(t, hits)
				checkBadRecordMAC(t, "client", h.clientErr)
			})
		})
	}
}

// checkHits makes sure that a test did spoil a share.
func checkHits(t *testing.T, hits int) {
	t.Helper()
	if hits != 1 {
		t.Fatalf("%d shares were replaced, want 1", hits)
	}
}

func refusedByServer(t *testing.T, group tls.CurveID, f func([]byte) []byte) {
	t.Helper()
	hits := 0
	var event tlsext.Event
	h := &handshake{
		server: serverConfig(group), client: clientConfig(group),
		mangleClient: replaceShare(group, &hits, f),
		serverCtx:    tlsext.WithObserver(t.Context(), func(e tlsext.Event) { event = e }),
	}
	h.run(t)
	checkHits(t, hits)
	checkAlert(t, "server", h.serverAlerts, alertIllegalParameter)
	var peer *provider.PeerError
	if !errors.As(h.serverErr, &peer) {
		t.Errorf("the server's error is %v, want a provider.PeerError", h.serverErr)
	}
	if h.serverState.CurveID != group {
		t.Errorf("the failed handshake's group is %v, want %v", h.serverState.CurveID, group)
	}
	if event.Group != group || !event.Server || !errors.As(event.Err, &peer) {
		t.Errorf("the event is %+v", event)
	}
}

// The same on the client, for what a server sends; also after a
// HelloRetryRequest.
func TestMalformedServerShares(t *testing.T) {
	for _, set := range coefficients {
		for _, retry := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, retry %v", set.group, retry), func(t *testing.T) {
				for _, tc := range malformedShares() {
					t.Run(tc.name, func(t *testing.T) { refusedByClient(t, set.group, retry, tc.f) })
				}
			})
		}
	}
}

func refusedByClient(t *testing.T, group tls.CurveID, retry bool, f func([]byte) []byte) {
	t.Helper()
	hits := 0
	replace := replaceShare(group, &hits, f)
	h := &handshake{server: serverConfig(group), client: clientConfig(group, x25519), clientCtx: t.Context()}
	h.mangleServer = func(msg []byte) []byte {
		if isHelloRetryRequest(msg) {
			return msg // its key_share names a group only
		}
		return replace(msg)
	}
	if retry {
		h.clientCtx = tlsext.WithClientShares(h.clientCtx, x25519)
	}
	h.run(t)
	checkHits(t, hits)
	checkAlert(t, "client", h.clientAlerts, alertIllegalParameter)
	var peer *provider.PeerError
	if !errors.As(h.clientErr, &peer) {
		t.Errorf("the client's error is %v, want a provider.PeerError", h.clientErr)
	}
}

// A tampered ciphertext gives another secret, by implicit rejection, and the
// first encrypted record does not open.
func TestTamperedCiphertext(t *testing.T) {
	for _, set := range coefficients {
		t.Run(set.group.String(), func(t *testing.T) {
			hits, at := 0, 0
			h := (&handshake{
				server: serverConfig(set.group), client: clientConfig(set.group),
				mangleServer: replaceShare(set.group, &hits, func(b []byte) []byte {
					at = 32 + rand.IntN(len(b)-32)
					b[at] ^= 1
					return b
				}),
			}).run(t)
			t.Logf("byte %d", at)
			checkHits(t, hits)
			checkBadRecordMAC(t, "client", h.clientErr)
		})
	}
}
