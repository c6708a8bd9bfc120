package proxy

import (
	"crypto/x509"
	"encoding/base64"
	"net/http"
	"net/netip"
	"strings"
)

// forwarded is the value of the header Forwarded (RFC 7239) for a client's
// request over TLS.
func forwarded(r *http.Request) string {
	node := "unknown" // section 6.2
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		node = at.Addr().Unmap().WithZone("").String()
		if strings.Contains(node, ":") {
			node = "[" + node + "]" // section 6
		}
	}
	return "for=" + quoted(node) + ";host=" + quoted(r.Host) + ";proto=https"
}

// clientCert is the value of the header Client-Cert (RFC 9440, section 2.2), a byte
// sequence of RFC 8941, section 3.3.5.
func clientCert(cert *x509.Certificate) string {
	return ":" + base64.StdEncoding.EncodeToString(cert.Raw) + ":"
}

// quoted makes a quoted-string of what is no token (RFC 9110, section 5.6).
func quoted(s string) string {
	plain := strings.IndexFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	}) < 0
	if plain && s != "" {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
