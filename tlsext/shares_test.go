package tlsext_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"slices"
	"testing"

	"github.com/ctrutls/ctrutls/tlsext"
)

// The shares of a first ClientHello as they are on the wire.
func TestDefaultShares(t *testing.T) {
	for _, tc := range []struct{ offered, shares []tls.CurveID }{
		{ids(ctru761, mlkem768, x25519, p256), ids(ctru761, mlkem768, x25519)},
		{ids(ctru653, ctru761, ctru1277, x25519), ids(ctru653, x25519)},
		{ids(ctru761), ids(ctru761)},
		// The order of shares is that of supported_groups (RFC 8446, section 4.2.8).
		{ids(mlkem768, ctru761, x25519), ids(mlkem768, ctru761, x25519)},
		{ids(x25519, p256, mlkem768, ctru1277), ids(x25519, mlkem768, ctru1277)},
		// The most preferred group always has one.
		{ids(p256, ctru761, mlkem768, x25519), ids(p256, ctru761, mlkem768)},
		{ids(p256mlkm, ctru761, mlkem768, x25519), ids(p256mlkm, ctru761, x25519)},
		// Without the usual groups, the first of the kind.
		{ids(ctru761, p256mlkm, p384, p256), ids(ctru761, p256mlkm, p384)},
	} {
		t.Run(fmt.Sprint(tc.offered), func(t *testing.T) {
			hello := sentHello(t, &handshake{client: clientConfig(tc.offered...)})
			if got := hello.shareGroups(); !slices.Equal(got, tc.shares) {
				t.Errorf("shares for %v, want %v", got, tc.shares)
			}
			checkOneX25519Key(t, hello)
		})
	}
}

// Every share that has an X25519 key has the same one.
func checkOneX25519Key(t *testing.T, hello clientHello) {
	t.Helper()
	var first []byte
	for _, s := range hello.shares {
		var key []byte
		switch s.group {
		case x25519, ctru653, ctru761, ctru1277:
			key = s.data[:32]
		case mlkem768:
			key = s.data[len(s.data)-32:]
		default:
			continue
		}
		if first == nil {
			first = key
		}
		if !bytes.Equal(first, key) {
			t.Errorf("%v is on another X25519 key than %v", s.group, hello.shares[0].group)
		}
	}
}

// sentHello returns a client's first ClientHello; it is answered by a server
// that takes any group.
func sentHello(t *testing.T, h *handshake) clientHello {
	t.Helper()
	h.server = serverConfig(h.client.CurvePreferences...)
	if h.run(t); h.serverErr != nil || h.clientErr != nil {
		t.Fatalf("server: %v; client: %v", h.serverErr, h.clientErr)
	}
	return h.hellos[0]
}

func TestClientShares(t *testing.T) {
	offered := ids(ctru761, mlkem768, x25519, ctru653, p256)
	for _, tc := range []struct {
		asked, shares []tls.CurveID
	}{
		{ids(x25519), ids(x25519)},
		{ids(ctru761), ids(ctru761)},
		{ids(mlkem768), ids(mlkem768)},
		{ids(x25519, ctru761), ids(ctru761, x25519)},
		{ids(ctru761, ctru653, p256), ids(ctru761, ctru653, p256)},
		{ids(p384, x25519), ids(x25519)},                         // one is not offered
		{ids(p384), ids(ctru761)},                                // nor is any: the first
		{nil, ids(ctru761, mlkem768, x25519)},                    // none asked for: the default
		{offered, ids(ctru761, mlkem768, x25519, ctru653, p256)}, // all
	} {
		t.Run(fmt.Sprint(tc.asked), func(t *testing.T) {
			t.Run("context", func(t *testing.T) {
				h := &handshake{client: clientConfig(offered...), clientCtx: tlsext.WithClientShares(t.Context(), tc.asked...)}
				checkShares(t, sentHello(t, h), tc.shares)
			})
			t.Run("Register", func(t *testing.T) {
				register(t, served, tlsext.ClientShares(tc.asked...))
				checkShares(t, sentHello(t, &handshake{client: clientConfig(offered...)}), tc.shares)
			})
			t.Run("context over Register", func(t *testing.T) {
				register(t, served, tlsext.ClientShares(p256))
				h := &handshake{client: clientConfig(offered...), clientCtx: tlsext.WithClientShares(t.Context(), tc.asked...)}
				checkShares(t, sentHello(t, h), tc.shares)
			})
		})
	}
}

func checkShares(t *testing.T, hello clientHello, want []tls.CurveID) {
	t.Helper()
	if got := hello.shareGroups(); !slices.Equal(got, want) {
		t.Errorf("shares for %v, want %v", got, want)
	}
	checkOneX25519Key(t, hello)
}

// Fewer shares make a smaller hello, by exactly the shares that are left out.
func TestHelloSize(t *testing.T) {
	offered := ids(ctru761, mlkem768, x25519)
	const entry = 4 // a share's group and length
	size := func(shares ...tls.CurveID) int {
		h := &handshake{client: clientConfig(offered...), clientCtx: tlsext.WithClientShares(t.Context(), shares...)}
		return sentHello(t, h).size
	}
	three, two, one := size(), size(ctru761, x25519), size(x25519)
	t.Logf("ClientHello: %d bytes with three shares, %d with two, %d with X25519 alone", three, two, one)
	if got, want := three-two, entry+1184+32; got != want {
		t.Errorf("without X25519MLKEM768 the hello is %d bytes smaller, want %d", got, want)
	}
	if got, want := two-one, entry+32+1237; got != want {
		t.Errorf("without X25519CTRUPrime761 too it is %d bytes smaller, want %d", got, want)
	}
}

// Whatever shares the client sent first and whatever group the server wants, the
// handshake ends in the server's group; with a HelloRetryRequest only where there
// was no share for it.
func TestHelloRetryRequest(t *testing.T) {
	offered := ids(ctru761, ctru653, mlkem768, p256mlkm, x25519, p256, p384, tls.CurveP521)
	first := [][]tls.CurveID{nil, ids(ctru761), ids(ctru653), ids(x25519), ids(mlkem768), ids(p256mlkm), ids(p384), ids(ctru761, ctru653), ids(ctru761, p256)}
	for _, shares := range first {
		for _, want := range offered {
			t.Run(fmt.Sprint(shares, " then ", want), func(t *testing.T) {
				h := &handshake{
					server: serverConfig(want, ctru1277), client: clientConfig(offered...),
					clientCtx: tlsext.WithClientShares(t.Context(), shares...),
				}
				sent := shares
				if sent == nil {
					sent = ids(ctru761, mlkem768, x25519)
				}
				retry := !slices.Contains(sent, want)
				h.succeeds(t, want, retry)
				if !retry {
					return
				}
				if len(h.hellos) != 2 {
					t.Fatalf("%d ClientHellos, want 2", len(h.hellos))
				}
				checkShares(t, h.hellos[1], ids(want))
				for _, before := range h.hellos[0].shares {
					again := h.hellos[1].shares[0].data
					if n := min(32, len(again), len(before.data)); bytes.Equal(again[:n], before.data[:n]) {
						t.Errorf("the second hello reuses the key of %v", before.group)
					}
				}
			})
		}
	}
}
