package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
)

// Policy is how TLS is spoken with the clients of a host: the key tls, and where
// the host differs from it.
type Policy struct {
	Groups        []tls.CurveID
	MinVersion    Version
	ALPN          []string // none: no protocol is agreed on
	RequireHybrid bool
	ClientAuth    ClientAuth
}

// PolicyFor returns the policy of the host with an index; -1 stands for names that
// no host covers.
func (c *Config) PolicyFor(index int) Policy {
	p := Policy{Groups: c.TLS.CurveIDs(), MinVersion: c.TLS.MinVersion, RequireHybrid: c.TLS.RequireHybrid, ClientAuth: c.TLS.ClientAuth}
	h := Host{Mode: ModeHTTP}
	if index >= 0 {
		h = c.Hosts[index]
	}
	if h.Mode == ModeHTTP {
		for _, name := range c.TLS.ALPN {
			p.ALPN = append(p.ALPN, string(name))
		}
	}
	h.TLS.narrow(&p)
	if p.RequireHybrid {
		p.Groups = slices.DeleteFunc(p.Groups, groups.Classical)
		p.MinVersion = tls.VersionTLS13
	}
	return p
}

// narrow makes p what h says, where it does.
func (h *HostTLS) narrow(p *Policy) {
	if len(h.Groups) > 0 {
		p.Groups = curveIDs(h.Groups)
	}
	if h.MinVersion != 0 {
		p.MinVersion = h.MinVersion
	}
	if len(h.ALPN) > 0 {
		p.ALPN = nil
		for _, name := range h.ALPN {
			p.ALPN = append(p.ALPN, string(name))
		}
	}
	if h.RequireHybrid != "" {
		p.RequireHybrid = h.RequireHybrid == "true"
	}
	if h.ClientAuth.Mode != "" {
		p.ClientAuth = h.ClientAuth
	}
}

// ClientAuthMode says what clients have to show.
type ClientAuthMode string

// The modes.
const (
	ClientAuthNone    ClientAuthMode = "none"    // they are not asked
	ClientAuthRequest ClientAuthMode = "request" // none, or one that can be verified
	ClientAuthRequire ClientAuthMode = "require" // one that can be verified
)

// UnmarshalText takes one of the modes.
func (m *ClientAuthMode) UnmarshalText(text []byte) error {
	return oneOf(m, "mode", text, ClientAuthNone, ClientAuthRequest, ClientAuthRequire)
}

// ClientName is what a client's certificate has to hold: cn:NAME, the common name;
// dns:NAME, email:ADDRESS or uri:URI among its alternative names. A * at the end
// of a URI stands for anything, a *. before a DNS name for one label.
type ClientName string

// UnmarshalText takes a name with its kind in front.
func (n *ClientName) UnmarshalText(text []byte) error {
	kind, name, _ := strings.Cut(string(text), ":")
	if !slices.Contains([]string{"cn", "dns", "email", "uri"}, kind) || name == "" {
		return fmt.Errorf("%q is not a name; write cn:NAME, dns:NAME, email:ADDRESS or uri:URI", text)
	}
	star := strings.IndexByte(name, '*')
	if star >= 0 && !(kind == "uri" && star == len(name)-1 || kind == "dns" && strings.HasPrefix(name, "*.") && strings.Count(name, "*") == 1) {
		return fmt.Errorf("%q: a * can stand at the end of a uri, and as *. before a dns name", text)
	}
	*n = ClientName(text)
	return nil
}

// ProtocolName is an application protocol as ALPN names it, of any kind.
type ProtocolName string

// UnmarshalText takes what fits into ALPN (RFC 7301, section 3.1) and a log.
func (p *ProtocolName) UnmarshalText(text []byte) error {
	if len(text) == 0 || len(text) > 255 || strings.ContainsFunc(string(text), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%q is not a protocol; write 1 to 255 letters, digits and signs, such as h2", text)
	}
	*p = ProtocolName(text)
	return nil
}

// StoreURL is where a server of Redis's protocol is.
type StoreURL string

// UnmarshalText refuses parts that belong elsewhere: a password into its file.
func (s *StoreURL) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*s = ""
		return nil
	}
	u, err := url.Parse(string(text))
	if err != nil || u.Opaque != "" || u.Host == "" || u.Scheme != "redis" && u.Scheme != "rediss" {
		return errors.New("not a URL of a store; write redis://HOST:PORT/DATABASE, or rediss:// for TLS")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("a store's URL cannot hold a user, a password or a query; there are the keys username and password_file")
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		if n, err := strconv.Atoi(db); err != nil || n < 0 || n > 1_000_000 {
			return fmt.Errorf("%q is not the number of a database", db)
		}
	}
	*s = StoreURL(text)
	return nil
}

// Choice is true, false, or empty where neither is said.
type Choice string

// UnmarshalText takes true or false.
func (c *Choice) UnmarshalText(text []byte) error {
	if s := string(text); s != "true" && s != "false" {
		return fmt.Errorf("%q is neither true nor false", text)
	}
	*c = Choice(text)
	return nil
}

// MarshalYAML writes the word without quotes.
func (c Choice) MarshalYAML() (any, error) { return c == "true", nil }

// policies finds what contradicts itself in the policies towards clients.
func (v *validator) policies() {
	c := v.config
	v.policy("tls", c.PolicyFor(-1), c.TLS.ClientAuth)
	if t := c.TLS.Tickets; t.Store.URL != "" && t.Secrets == "" {
		v.errorf("tls.tickets.store", "tls.tickets.store needs tls.tickets.secrets, under which keys are sealed in the store")
	}
	v.store()
	if t := c.TLS.Tickets; t.Rotate > 0 && t.Lifetime/t.Rotate > maxTicketKeys {
		v.errorf("tls.tickets.lifetime", "tls.tickets.lifetime (%v) is more than %d times tls.tickets.rotate (%v)", t.Lifetime, maxTicketKeys, t.Rotate)
	}
	for i := range c.Hosts {
		h := &c.Hosts[i]
		path := fmt.Sprintf("hosts[%d]", i)
		if h.Mode == ModePassthrough {
			const why = "in mode passthrough, in which TLS is the backend's; remove it"
			v.idle(!reflect.DeepEqual(h.TLS, HostTLS{}), path+".tls", why)
			v.idle(len(h.Certificates) > 0, path+".certificates", why)
			continue
		}
		v.certificateFiles(path+".certificates", h.Certificates)
		unique(v, path+".tls.groups", h.TLS.Groups, Group.String)
		unique(v, path+".tls.alpn", h.TLS.ALPN, func(p ProtocolName) string { return string(p) })
		for j, name := range h.TLS.ALPN {
			if p := Protocol(name); h.Mode == ModeHTTP && p != ProtocolHTTP1 && p != ProtocolHTTP2 {
				v.errorf(fmt.Sprintf("%s.tls.alpn[%d]", path, j), "%s.tls.alpn: %q is not spoken in mode http; h2 and http/1.1 are", path, name)
			}
		}
		p := c.PolicyFor(i)
		v.idle(p.RequireHybrid && h.TLS.MinVersion == tls.VersionTLS12, path+".tls.min_version", "with require_hybrid, for which TLS 1.3 is needed; remove it")
		v.policy(path+".tls", p, h.TLS.ClientAuth)
	}
}

// store checks what the server of session ticket keys is told.
func (v *validator) store() {
	s := v.config.TLS.Tickets.Store
	if s.URL == "" {
		return
	}
	if s.CA != "" && !strings.HasPrefix(string(s.URL), "rediss:") {
		v.errorf("tls.tickets.store.ca", "tls.tickets.store.ca needs a url that begins with rediss://")
	}
	if s.Username != "" && s.Password == "" {
		v.errorf("tls.tickets.store.username", "tls.tickets.store.username needs tls.tickets.store.password_file, without which nobody logs in")
	}
}

// maxTicketKeys bounds how many periods of ticket keys are held.
const maxTicketKeys = 1000

// policy checks one policy; own is what the file says of client certificates at
// path.
func (v *validator) policy(path string, p Policy, own ClientAuth) {
	if p.RequireHybrid && len(p.Groups) == 0 {
		v.errorf(path+".require_hybrid", "%s.require_hybrid is true, but none of the groups is post-quantum; add one, such as X25519MLKEM768", path)
	}
	at := path + ".client_auth"
	switch {
	case own.Mode == "" && (own.CA != "" || len(own.Allow) > 0):
		v.errorf(at, "missing key \"mode\" in %s; write request or require", at)
	case (own.Mode == ClientAuthRequest || own.Mode == ClientAuthRequire) && own.CA == "":
		v.errorf(at, "missing key \"ca\" in %s; name the PEM file of the authorities that vouch for clients", at)
	case own.Mode == ClientAuthNone && (own.CA != "" || len(own.Allow) > 0):
		v.errorf(at, "%s names certificates, but its mode is none; write request or require", at)
	}
}
