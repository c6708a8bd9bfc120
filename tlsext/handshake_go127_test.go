//go:build go1.27

package tlsext_test

import (
	"crypto/tls"
	"testing"

	"github.com/ctrutls/ctrutls/tlsext"
)

// MLKEM1024 alone has no classical key: its share lives beside ours, and follows
// a HelloRetryRequest.
func TestMLKEM1024(t *testing.T) {
	const mlkem1024 = tls.MLKEM1024
	for _, tc := range []struct {
		name           string
		client, shares []tls.CurveID
		retry          bool
	}{
		{"share beside ours", ids(ctru761, mlkem1024, x25519), nil, false},
		{"most preferred", ids(mlkem1024, ctru761, x25519), nil, false},
		{"HelloRetryRequest", ids(ctru761, mlkem1024, x25519), ids(ctru761), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			(&handshake{
				server: serverConfig(mlkem1024), client: clientConfig(tc.client...),
				clientCtx: tlsext.WithClientShares(t.Context(), tc.shares...),
			}).succeeds(t, mlkem1024, tc.retry)
		})
	}
	t.Run("ours", func(t *testing.T) {
		(&handshake{server: serverConfig(ctru761, mlkem1024), client: clientConfig(mlkem1024, ctru761)}).succeeds(t, ctru761, false)
	})
	if id, ok := tlsext.GroupByName("mlkem1024"); !ok || id != mlkem1024 || tlsext.GroupName(id) != id.String() {
		t.Errorf("MLKEM1024 is %v, %v, called %q", id, ok, tlsext.GroupName(id))
	}
}
