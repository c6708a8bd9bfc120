package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// URL is a backend: http or https, a host, perhaps a port and a path that is
// put in front of each request's path; or tcp or tls, a host and a port; or
// http+unix or unix, for HTTP and for bytes over a Unix socket, and its path.
type URL struct{ *url.URL }

// UnmarshalText refuses parts of a URL that a backend cannot have.
func (u *URL) UnmarshalText(text []byte) error {
	parsed, err := url.Parse(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a URL; write one such as http://127.0.0.1:8080", text)
	}
	if err := checkScheme(parsed, text); err != nil {
		return err
	}
	unix := strings.HasSuffix(parsed.Scheme, "unix")
	switch {
	case unix && (parsed.Host != "" || len(parsed.Path) < 2 || len(parsed.Path) > maxSocketPath):
		return fmt.Errorf("%q names no Unix socket; write its absolute path after three slashes, as in %s:///run/app.sock, %d bytes at most", text, parsed.Scheme, maxSocketPath)
	case !unix && parsed.Hostname() == "":
		return fmt.Errorf("%q names no host", text)
	case parsed.User != nil:
		return errors.New("a backend's URL cannot hold a user or password")
	case parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "":
		return fmt.Errorf("%q: a backend's URL cannot hold a query or fragment", text)
	}
	if port := parsed.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("port %q of %q is not a number from 1 to 65535", port, text)
		}
	}
	u.URL = parsed
	if unix {
		return nil
	}
	if !u.HTTP() && parsed.Port() == "" {
		return fmt.Errorf("%q names no port; write one such as %s://127.0.0.1:5432", text, parsed.Scheme)
	}
	if !u.HTTP() && parsed.Path != "" {
		return fmt.Errorf("%q: the URL of a %s backend cannot hold a path", text, parsed.Scheme)
	}
	return nil
}

func checkScheme(u *url.URL, text []byte) error {
	switch u.Scheme {
	case "http", "https", "tcp", "tls", "http+unix", "unix":
		if u.Opaque == "" {
			return nil
		}
	}
	return fmt.Errorf("%q does not start with http://, https://, tcp://, tls://, http+unix:// or unix://", text)
}

// maxSocketPath is what Linux allows; others allow a little less.
const maxSocketPath = 107

// HTTP reports whether the backend is spoken to in HTTP, and not in bytes that
// the proxy does not look at.
func (u URL) HTTP() bool { return strings.HasPrefix(u.Scheme, "http") }

// Secure reports whether the backend is spoken to over TLS.
func (u URL) Secure() bool { return u.Scheme == "https" || u.Scheme == "tls" }

// Named reports whether the backend's host is a name that can be looked up.
func (u URL) Named() bool {
	_, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() != "" && err != nil
}

// MarshalText gives the URL.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// BackendProtocol is the HTTP that a pool's backends are spoken to in.
type BackendProtocol string

// The protocols towards backends.
const (
	BackendHTTP1 BackendProtocol = "http1" // HTTP/1.1
	BackendHTTP2 BackendProtocol = "h2"    // HTTP/2 over TLS
	BackendH2C   BackendProtocol = "h2c"   // HTTP/2 without TLS, with prior knowledge
	BackendAuto  BackendProtocol = "auto"  // over TLS what ALPN gives, else HTTP/1.1
)

// UnmarshalText takes one of the protocols.
func (p *BackendProtocol) UnmarshalText(text []byte) error {
	return oneOf(p, "protocol", text, BackendHTTP1, BackendHTTP2, BackendH2C, BackendAuto)
}

// Balance is how a backend is chosen from a pool.
type Balance string

// The ways to choose.
const (
	BalanceRoundRobin       Balance = "round_robin"
	BalanceLeastConnections Balance = "least_connections"
	BalanceHash             Balance = "hash"
)

// UnmarshalText takes one of the ways.
func (b *Balance) UnmarshalText(text []byte) error {
	return oneOf(b, "way to balance", text, BalanceRoundRobin, BalanceLeastConnections, BalanceHash)
}

// HashSource and the others say where a request's key for BalanceHash is.
const (
	HashSource = "source" // the client's address, without its port
	HashHeader = "header"
	HashCookie = "cookie"
)

// HashKey is what BalanceHash goes by: HashSource, or HashHeader or HashCookie
// with a name.
type HashKey struct{ From, Name string }

// UnmarshalText takes "source", "header NAME" or "cookie NAME".
func (k *HashKey) UnmarshalText(text []byte) error {
	words := strings.Fields(string(text))
	switch {
	case len(words) == 1 && words[0] == HashSource:
		*k = HashKey{From: HashSource}
	case len(words) == 2 && (words[0] == HashHeader || words[0] == HashCookie) && isToken(words[1]):
		*k = HashKey{From: words[0], Name: words[1]}
	default:
		return fmt.Errorf("%q is not a key to hash; write source, header NAME or cookie NAME", text)
	}
	return nil
}

// MarshalText gives the form that UnmarshalText takes.
func (k HashKey) MarshalText() ([]byte, error) {
	return []byte(strings.TrimSpace(k.From + " " + k.Name)), nil
}

// isToken reports whether s can be a header's name (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	return s != "" && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~") == ""
}

// HealthCheck is what an active check asks of a backend.
type HealthCheck string

// The checks.
const (
	HealthCheckNone    HealthCheck = "none"
	HealthCheckConnect HealthCheck = "connect" // that it can be connected to, over TLS too
	HealthCheckHTTP    HealthCheck = "http"    // an answer from 200 to 399
	HealthCheckGRPC    HealthCheck = "grpc"    // SERVING by gRPC's health checking protocol
)

// UnmarshalText takes one of the checks.
func (h *HealthCheck) UnmarshalText(text []byte) error {
	return oneOf(h, "check", text, HealthCheckNone, HealthCheckConnect, HealthCheckHTTP, HealthCheckGRPC)
}
