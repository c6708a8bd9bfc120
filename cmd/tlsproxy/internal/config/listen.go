package config

import (
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Listener is a place where clients connect. In the file it can be its address
// alone.
type Listener struct {
	Address       ListenAddress `yaml:"address"`
	Mode          SocketMode    `yaml:"mode"` // of a Unix socket's file
	ReusePort     bool          `yaml:"reuse_port"`
	ProxyProtocol ProxyProtocol `yaml:"proxy_protocol"`
}

// ProxyProtocol says whose word a Listener takes for who its clients are.
type ProxyProtocol struct {
	From    []Source      `yaml:"from" max:"1000"` // none: nobody's
	Mode    ProxyListener `yaml:"mode"`
	Timeout Duration      `yaml:"timeout" min:"10ms" max:"1m"`
}

// ListenOn is a Listener at an address with the default of all else.
func ListenOn(address string) Listener {
	l := Listener{Address: ListenAddress(address)}
	l.setDefaults()
	return l
}

// setDefaults gives an entry of listen the values of keys that it leaves out.
func (l *Listener) setDefaults() {
	l.Mode = defaultSocketMode
	l.ProxyProtocol = ProxyProtocol{Mode: ProxyRequired, Timeout: Duration(5 * time.Second)}
}

// shortForm takes an address for the whole entry.
func (l *Listener) shortForm() any { return &l.Address }

// ListenAddress is an Address, or "unix:" and the absolute path of a Unix
// socket, or "systemd:" and the name of sockets that systemd has opened.
type ListenAddress string

// The words before the colon that are no hosts.
const (
	unixPrefix    = "unix:"
	systemdPrefix = "systemd:"
)

// UnmarshalText checks the form.
func (a *ListenAddress) UnmarshalText(text []byte) error {
	if path, ok := strings.CutPrefix(string(text), unixPrefix); ok {
		if !filepath.IsAbs(path) || len(path) < 2 || len(path) > maxSocketPath {
			return fmt.Errorf("%q names no Unix socket; write its absolute path, as in unix:/run/tlsproxy.sock, %d bytes at most", text, maxSocketPath)
		}
		*a = ListenAddress(unixPrefix + filepath.Clean(path))
		return nil
	}
	if name, ok := strings.CutPrefix(string(text), systemdPrefix); ok {
		if !validSocketName(name) {
			return fmt.Errorf("%q names no socket of systemd's; write what FileDescriptorName= says in its unit, as in systemd:https", text)
		}
		*a = ListenAddress(text)
		return nil
	}
	var address Address
	if err := address.UnmarshalText(text); err != nil {
		return err
	}
	*a = ListenAddress(address)
	return nil
}

// validSocketName is what systemd allows (systemd.socket(5), FileDescriptorName=):
// printable ASCII without colons.
func validSocketName(name string) bool {
	return name != "" && len(name) <= 255 && strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' }) < 0
}

// Unix returns the path of a Unix socket.
func (a ListenAddress) Unix() (path string, ok bool) { return strings.CutPrefix(string(a), unixPrefix) }

// Systemd returns the name of sockets that systemd has opened.
func (a ListenAddress) Systemd() (name string, ok bool) {
	return strings.CutPrefix(string(a), systemdPrefix)
}

// isTCP reports whether it is host and port.
func (a ListenAddress) isTCP() bool {
	_, unix := a.Unix()
	_, systemd := a.Systemd()
	return !unix && !systemd
}

// SocketMode is who may connect to a Unix socket, as chmod writes it in octal.
type SocketMode fs.FileMode

const defaultSocketMode SocketMode = 0o600

// UnmarshalText takes octal digits, as many as chmod takes.
func (m *SocketMode) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || n > 0o777 {
		return fmt.Errorf(`%q is not the mode of a socket; write three or four octal digits in quotes, such as "0660"`, text)
	}
	*m = SocketMode(n)
	return nil
}

// MarshalText gives four octal digits.
func (m SocketMode) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%04o", uint32(m)), nil }

// Source is where proxies in front connect from: a network as "10.0.0.0/8", one
// address, or "unix" for whoever may connect to a Unix socket.
type Source struct {
	Prefix netip.Prefix // valid unless Unix
	Unix   bool
}

// UnmarshalText takes one of the forms.
func (s *Source) UnmarshalText(text []byte) error {
	if string(text) == "unix" {
		*s = Source{Unix: true}
		return nil
	}
	if address, err := netip.ParseAddr(string(text)); err == nil && address.Zone() == "" {
		address = address.Unmap()
		*s = Source{Prefix: netip.PrefixFrom(address, address.BitLen())}
		return nil
	}
	prefix, err := netip.ParsePrefix(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a network; write one such as 10.0.0.0/8, 2001:db8::/32 or 192.0.2.1, or unix", text)
	}
	if prefix != prefix.Masked() {
		return fmt.Errorf("%q has bits behind its length; the network is %s", text, prefix.Masked())
	}
	const mapped = 96 // bits in front of an IPv4 address that is written as one of IPv6
	if prefix.Addr().Is4In6() && prefix.Bits() >= mapped {
		prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-mapped) // as connections' addresses are compared
	}
	*s = Source{Prefix: prefix}
	return nil
}

// MarshalText gives the form that UnmarshalText takes.
func (s Source) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Source) String() string {
	if s.Unix {
		return "unix"
	}
	return s.Prefix.String()
}

// ProxyListener is what a Listener wants at the head of connections.
type ProxyListener string

// The modes.
const (
	ProxyRequired ProxyListener = "required" // all connections are from the proxies, and have the header
	ProxyOptional ProxyListener = "optional" // those from the proxies may have it; others are clients' own
)

// UnmarshalText takes one of the modes.
func (p *ProxyListener) UnmarshalText(text []byte) error {
	return oneOf(p, "mode", text, ProxyRequired, ProxyOptional)
}

// SendProxy is the version of the PROXY protocol that a pool's backends are told
// of clients in.
type SendProxy string

// The versions.
const (
	SendProxyNone SendProxy = "none"
	SendProxyV1   SendProxy = "v1"
	SendProxyV2   SendProxy = "v2"
)

// UnmarshalText takes one of the versions.
func (p *SendProxy) UnmarshalText(text []byte) error {
	return oneOf(p, "version of the PROXY protocol", text, SendProxyNone, SendProxyV1, SendProxyV2)
}

// listeners finds what contradicts itself in listen.
func (v *validator) listeners() {
	list := v.config.Listen
	v.nonEmpty("listen", len(list))
	addresses := map[ListenAddress]bool{}
	for i, l := range list {
		path := fmt.Sprintf("listen[%d]", i)
		if l.Address == "" && !v.present(path+".address") && !v.atFault(path) {
			v.errorf(path, "missing key \"address\" in %s; write host:port, unix:PATH or systemd:NAME", path)
		}
		if addresses[l.Address] && l.Address != "" {
			v.errorf(path, "listen names %s twice", l.Address)
		}
		addresses[l.Address] = true
		_, unix := l.Address.Unix()
		if l.ReusePort && !l.Address.isTCP() {
			v.errorf(path+".reuse_port", "%s.reuse_port is for host:port, and %s is none", path, l.Address)
		}
		if l.Mode != defaultSocketMode && !unix && l.Address != "" {
			v.errorf(path+".mode", "%s.mode is for unix:PATH, and %s is none; remove it, or where systemd opens a Unix socket write SocketMode= in its unit", path, l.Address)
		}
		v.front(path+".proxy_protocol", l.ProxyProtocol.From, unix, l.Address.isTCP())
	}
}

// front checks whose word a listener takes. The proxies have to be able to
// connect to it.
func (v *validator) front(path string, from []Source, unix, tcp bool) {
	if v.present(path) && len(from) == 0 && !v.present(path+".from") {
		v.missing(path+".from", "list the networks that proxies connect from, such as 10.0.0.0/8; they say who clients are, so name no others")
	}
	unique(v, path+".from", from, Source.String)
	local := func(s Source) bool { return s.Unix }
	switch {
	case len(from) == 0:
	case unix && !slices.ContainsFunc(from, local):
		v.errorf(path+".from", "%s.from: what connects to a Unix socket has no address; write from: unix", path)
	case tcp && !slices.ContainsFunc(from, func(s Source) bool { return !s.Unix }):
		v.errorf(path+".from", "%s.from: unix is for Unix sockets; list the networks that proxies connect from", path)
	}
}
