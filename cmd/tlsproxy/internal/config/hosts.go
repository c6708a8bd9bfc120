package config

import (
	"fmt"
	"strings"
)

// AnyHost is the HostName that stands for every name that no other covers, and
// for clients that give none.
const AnyHost HostName = "*"

// maxHostNameBytes is DNS's bound (RFC 1035, section 2.3.4).
const maxHostNameBytes = 253

// HostName is a name that a client can ask for (SNI): "www.example.org"; a
// wildcard for exactly one label, "*.example.org"; or AnyHost.
type HostName string

// UnmarshalText takes a name in any case and makes it lower case.
func (h *HostName) UnmarshalText(text []byte) error {
	name := strings.ToLower(string(text))
	labels := strings.Split(strings.TrimPrefix(name, "*."), ".")
	if HostName(name) != AnyHost {
		for _, label := range labels {
			if !validLabel(label) {
				return fmt.Errorf("%q is not a host name; write one such as www.example.org, *.example.org or *, without a port, and other scripts as xn-- names", text)
			}
		}
	}
	if len(name) > maxHostNameBytes {
		return fmt.Errorf("%q is longer than %d bytes", text, maxHostNameBytes)
	}
	if last := labels[len(labels)-1]; strings.Trim(last, "0123456789") == "" {
		return fmt.Errorf("%q is an address; clients name no host when they connect to one, so use the name *", text)
	}
	*h = HostName(name)
	return nil
}

// validLabel allows underscores, which hosts should not have and some do.
func validLabel(label string) bool {
	return label != "" && len(label) <= 63 && strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// Mode is what happens to a host's connections.
type Mode string

// The modes.
const (
	ModeHTTP        Mode = "http"        // TLS ends here, HTTP requests go to pools
	ModeTCP         Mode = "tcp"         // TLS ends here, the bytes within go to a pool
	ModePassthrough Mode = "passthrough" // TLS goes to a pool as it is
)

// UnmarshalText takes one of the modes.
func (m *Mode) UnmarshalText(text []byte) error {
	return oneOf(m, "mode", text, ModeHTTP, ModeTCP, ModePassthrough)
}

// RoutePath is a path and what lies beneath it: "/api" covers "/api" and
// "/api/x", not "/apis"; "/api/" does not cover "/api".
type RoutePath string

// UnmarshalText takes a path as a request has it once its percent-encoding is
// undone.
func (p *RoutePath) UnmarshalText(text []byte) error {
	path := string(text)
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#%*") {
		return fmt.Errorf("%q is not a path; write one such as /api/, without wildcards, percent signs or a query", text)
	}
	if strings.Contains(path, "//") || strings.Contains(path+"/", "/./") || strings.Contains(path+"/", "/../") {
		return fmt.Errorf("%q has an empty or dot segment, without which requests are compared; remove it", text)
	}
	*p = RoutePath(path)
	return nil
}

// UnknownHost is what clients meet who name no host, or one that no entry of
// hosts covers.
type UnknownHost string

// What such clients meet.
const (
	UnknownHostDefault UnknownHost = "default" // the default pool, over HTTP
	UnknownHostRefuse  UnknownHost = "refuse"  // the alert unrecognized_name
)

// UnmarshalText takes one of the two.
func (u *UnknownHost) UnmarshalText(text []byte) error {
	return oneOf(u, "treatment", text, UnknownHostDefault, UnknownHostRefuse)
}
