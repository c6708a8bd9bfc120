package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

// allowed are the names of which a client's certificate needs one.
type allowed struct {
	exact    map[config.ClientName]bool
	prefixes []string // of URIs
}

func newAllowed(names []config.ClientName) *allowed {
	a := &allowed{exact: map[config.ClientName]bool{}}
	for _, name := range names {
		if prefix, ok := strings.CutSuffix(string(name), "*"); ok {
			a.prefixes = append(a.prefixes, strings.TrimPrefix(prefix, "uri:"))
			continue
		}
		if strings.HasPrefix(string(name), "dns:") {
			name = config.ClientName(strings.ToLower(string(name)))
		}
		a.exact[name] = true
	}
	return a
}

var errClientNotAllowed = errors.New("the client's certificate is valid, but has no name that is allowed")

// verify has the form of tls.Config.VerifyConnection. A client without a
// certificate gets here only where none is required.
func (a *allowed) verify(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 || a.has(state.PeerCertificates[0]) {
		return nil
	}
	return fmt.Errorf("%w: %s", errClientNotAllowed, strings.Join(namesOf(state.PeerCertificates[0]), ", "))
}

func (a *allowed) has(cert *x509.Certificate) bool {
	for _, name := range namesOf(cert) {
		if a.exact[config.ClientName(name)] {
			return true
		}
		kind, value, _ := strings.Cut(name, ":")
		switch kind {
		case "dns":
			if _, parent, ok := strings.Cut(value, "."); ok && a.exact[config.ClientName("dns:*."+parent)] {
				return true
			}
		case "uri":
			for _, prefix := range a.prefixes {
				if strings.HasPrefix(value, prefix) {
					return true
				}
			}
		}
	}
	return false
}

// namesOf lists the names in a certificate as config.ClientName writes them.
func namesOf(cert *x509.Certificate) (names []string) {
	if cert.Subject.CommonName != "" {
		names = append(names, "cn:"+cert.Subject.CommonName)
	}
	for _, name := range cert.DNSNames {
		names = append(names, "dns:"+strings.ToLower(name))
	}
	for _, address := range cert.EmailAddresses {
		names = append(names, "email:"+address)
	}
	for _, uri := range cert.URIs {
		names = append(names, "uri:"+uri.String())
	}
	return names
}
