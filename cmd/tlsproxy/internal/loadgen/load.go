package loadgen

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Load says what is done on each connection, and with whom.
type Load struct {
	Addresses  []string    `json:"addresses"` // host:port of one server, used in turn
	Sources    []string    `json:"sources"`   // local addresses to connect from, used in turn; none: the system chooses
	ServerName string      `json:"server_name"`
	Group      tls.CurveID `json:"group"` // the only one offered

	// The server is verified against Certificate (DER), Authorities (PEM) or the
	// system's authorities, the first of them that is set; with Insecure not at all.
	Certificate []byte `json:"certificate,omitempty"`
	Authorities []byte `json:"authorities,omitempty"`
	Insecure    bool   `json:"insecure,omitempty"`

	Resume   bool   `json:"resume,omitempty"`   // a session that Prepare began
	Requests int    `json:"requests,omitempty"` // on each connection, one after another
	Path     string `json:"path,omitempty"`     // of the requests; empty: "/"

	Concurrency int     `json:"concurrency"`    // connections at once; with a Rate the most
	Rate        float64 `json:"rate,omitempty"` // connections begun each second; 0: each as soon as one has ended
}

// Bounds of a Load and a Span.
const (
	MaxConcurrency = 16384
	MaxRate        = 1e6
	MaxRequests    = 1 << 20
	MaxDuration    = 24 * time.Hour
	MaxAddresses   = 256
)

// stepTimeout bounds a connection's handshake, with the connect, and each request.
const stepTimeout = 10 * time.Second

func (l *Load) validate() error {
	for _, a := range l.Addresses {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return fmt.Errorf("loadgen: the address %q is not host:port: %w", a, err)
		}
	}
	switch {
	case len(l.Addresses) == 0 || len(l.Addresses) > MaxAddresses:
		return fmt.Errorf("loadgen: %d addresses; possible are 1 to %d", len(l.Addresses), MaxAddresses)
	case len(l.Sources) > MaxAddresses:
		return fmt.Errorf("loadgen: %d source addresses; possible are up to %d", len(l.Sources), MaxAddresses)
	case l.ServerName == "" && !l.Insecure:
		return errors.New("loadgen: no server name to verify")
	case l.Concurrency < 1 || l.Concurrency > MaxConcurrency:
		return fmt.Errorf("loadgen: %d connections at once; possible are 1 to %d", l.Concurrency, MaxConcurrency)
	case !(l.Rate >= 0 && l.Rate <= MaxRate):
		return fmt.Errorf("loadgen: a rate of %g; possible are up to %g", l.Rate, float64(MaxRate))
	case l.Requests < 0 || l.Requests > MaxRequests:
		return fmt.Errorf("loadgen: %d requests on each connection; possible are up to %d", l.Requests, MaxRequests)
	case l.Path != "" && (l.Path[0] != '/' || strings.ContainsFunc(l.Path, func(r rune) bool { return r <= ' ' || r >= 0x7f })):
		return fmt.Errorf("loadgen: the path %q does not begin with /, or has to be percent-encoded", l.Path)
	}
	return nil
}

// sources are Load.Sources as net.Dialer wants them.
func (l *Load) sources() ([]*net.TCPAddr, error) {
	var all []*net.TCPAddr
	for _, s := range l.Sources {
		ip, err := netip.ParseAddr(s)
		if err != nil {
			return nil, fmt.Errorf("loadgen: the source %q is not an IP address", s)
		}
		all = append(all, net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, 0)))
	}
	return all, nil
}

// Span says for how long load is made: until the first of its bounds.
type Span struct {
	Duration time.Duration `json:"duration"` // only the first of those at once can begin later; 0: no bound
	Count    int           `json:"count"`    // connections; 0: no bound
}

func (s Span) validate() error {
	switch {
	case s.Duration < 0 || s.Duration > MaxDuration:
		return fmt.Errorf("loadgen: a duration of %v; possible are up to %v", s.Duration, MaxDuration)
	case s.Count < 0:
		return fmt.Errorf("loadgen: a count of %d connections", s.Count)
	}
	return nil
}

// verifier returns what decides about a server's certificate. crypto/tls would verify
// the chain in every handshake; here a leaf that was verified is recognised, while the
// server's proof that it has the leaf's key stays crypto/tls's part.
func (l *Load) verifier() (func(tls.ConnectionState) error, error) {
	if l.Insecure {
		return nil, nil
	}
	options := x509.VerifyOptions{DNSName: l.ServerName}
	switch {
	case l.Certificate != nil:
		cert, err := x509.ParseCertificate(l.Certificate)
		if err != nil {
			return nil, fmt.Errorf("loadgen: the certificate to trust: %w", err)
		}
		options.Roots = x509.NewCertPool()
		options.Roots.AddCert(cert)
	case l.Authorities != nil:
		options.Roots = x509.NewCertPool()
		if !options.Roots.AppendCertsFromPEM(l.Authorities) {
			return nil, errors.New("loadgen: the authorities to trust hold no certificate in PEM form")
		}
	}
	return newVerified(options).check, nil
}

// clone keeps a caller's later changes out.
func (l Load) clone() Load {
	l.Addresses, l.Sources = slices.Clone(l.Addresses), slices.Clone(l.Sources)
	return l
}
