package proxy

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/accesslog"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/routing"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/tickets"
)

// policy is how TLS is spoken with the clients of some hosts.
type policy struct {
	tls       *tls.Config
	preferred *preference
	identity  identity
	hybrid    bool // clients need a post-quantum group
}

// identity tells policies apart by what a connection's client had to show. What
// was agreed on under one is worth nothing under another.
type identity [sha256.Size]byte

// policies are those of all hosts. Hosts that are alike share one.
type policies struct {
	rest *policy   // of names that no host covers
	host []*policy // by the host's index; nil: its TLS is passed on
}

// of returns the policy for a host.
func (p *policies) of(h *routing.Host) *policy {
	if h.Index < 0 {
		return p.rest
	}
	return p.host[h.Index]
}

// newPolicies are the policies of a configuration.
func newPolicies(o Options) *policies {
	made := map[string]*policy{}
	get := func(index, set int) *policy {
		spec := o.Config.PolicyFor(index)
		key := fmt.Sprint(set, spec)
		if made[key] == nil {
			issuer := o.Issuer
			if set != 0 { // the host has its own
				issuer = nil
			}
			made[key] = newPolicy(o, spec, o.Certificates.Set(set), issuer)
		}
		return made[key]
	}
	p := &policies{rest: get(-1, 0)}
	for i, h := range o.Config.Hosts {
		switch {
		case h.Mode == config.ModePassthrough:
			p.host = append(p.host, nil)
		case len(h.Certificates) > 0:
			p.host = append(p.host, get(i, CertificateSet(i)))
		default:
			p.host = append(p.host, get(i, 0))
		}
	}
	return p
}

// CertificateSet is the Set, in Options.Certificates, of the host with an index
// whose certificates are its own. Those of the whole proxy are the Set 0.
func CertificateSet(host int) int { return host + 1 }

func newPolicy(o Options, spec config.Policy, certs *certificates.Set, issuer Issuer) *policy {
	c := &tls.Config{
		MinVersion:       uint16(spec.MinVersion),
		CurvePreferences: spec.Groups,
		NextProtos:       spec.ALPN,
		GetCertificate:   o.certificate(certs, issuer),
	}
	p := &policy{tls: c, hybrid: spec.RequireHybrid, identity: identityOf(o, spec)}
	askClients(c, o, spec.ClientAuth)
	if o.Tickets == nil {
		c.SessionTicketsDisabled = true
	} else {
		o.Tickets.Use(c, p.scope)
	}
	p.preferred = newPreference(c)
	return p
}

// askClients makes c ask for certificates. What is checked here is checked for
// resumed sessions too.
func askClients(c *tls.Config, o Options, auth config.ClientAuth) {
	switch auth.Mode {
	case config.ClientAuthRequest:
		c.ClientAuth = tls.VerifyClientCertIfGiven
	case config.ClientAuthRequire:
		c.ClientAuth = tls.RequireAndVerifyClientCert
	default:
		return
	}
	c.ClientCAs = o.ClientCAs[auth.CA].Pool
	if len(auth.Allow) > 0 {
		allowed := newAllowed(auth.Allow)
		c.VerifyConnection = allowed.verify
	}
}

// identityOf sums up what a client has to show under a policy.
func identityOf(o Options, spec config.Policy) (id identity) {
	h := sha256.New()
	write := func(part string) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	write(fmt.Sprint(spec.RequireHybrid))
	write(string(spec.ClientAuth.Mode))
	if ca := o.ClientCAs[spec.ClientAuth.CA]; ca != nil && spec.ClientAuth.Mode != config.ClientAuthNone {
		write(string(ca.Sum[:]))
	}
	for _, name := range spec.ClientAuth.Allow {
		write(string(name))
	}
	h.Sum(id[:0])
	return id
}

// scope is what a session of a connection can be resumed for: the same server
// name, and no other demands on the client. RFC 8446, section 4.6.1, leaves that
// to the server; crypto/tls takes any session that its keys open.
func (p *policy) scope(state tls.ConnectionState) *tickets.Scope {
	s := tickets.Scope(sha256.Sum256(append(p.identity[:], strings.ToLower(state.ServerName)...)))
	return &s
}

// Why a handshake ends at its ClientHello.
var (
	errUnknownHost = errors.New("no host of that name is served")
	errNameTooLong = fmt.Errorf("the server name that is asked for has more than %d bytes", accesslog.MaxName)
	errPassthrough = errors.New("the connection is passed through")
	errNotHybrid   = errors.New("a post-quantum group is required, and the client offers none that is served")
)

// shedError ends a handshake at its ClientHello because of a limit.
type shedError struct{ over excess }

func (e *shedError) Error() string { return e.over.limit + " is reached" }

// Alerts that crypto/tls does not send by itself.
const (
	alertInsufficientSecurity = 71  // RFC 8446, section 6.2
	alertUnrecognizedName     = 112 // RFC 6066, section 3
)

// startConfig is what every handshake starts with: it notes each ClientHello on
// its connection for the log, finds the host that is asked for, and leads to
// that one's policy.
func startConfig(hosts *routing.Table, p *policies, issuer Issuer) *tls.Config {
	start := p.rest.tls.Clone()
	start.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c := hello.Conn.(*conn)
		c.sawHello(hello)
		if len(hello.ServerName) > accesslog.MaxName { // DNS has none; backends may be told of it
			c.refuse(alertUnrecognizedName)
			return nil, errNameTooLong
		}
		c.sni = hello.ServerName
		c.host = hosts.Find(c.sni)
		if c.host == nil || c.host.Mode != config.ModePassthrough {
			c.forgetHello()
		}
		if issuer != nil && (c.host == nil || c.host.Mode != config.ModePassthrough) {
			if challenge := issuer.Challenge(hello); challenge != nil {
				c.challenge = true
				return challenge, nil
			}
		}
		if c.host == nil {
			c.refuse(alertUnrecognizedName)
			return nil, errUnknownHost
		}
		if over := c.server.enterHost(c); over != (excess{}) {
			return nil, &shedError{over} // crypto/tls says internal_error, as RFC 8446, section 6.2, has it for a lack of memory
		}
		return p.choose(c, hello)
	}
	return start
}

// choose returns the policy for a client of c's host.
func (p *policies) choose(c *conn, hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if c.host.Mode == config.ModePassthrough {
		c.fallSilent()
		return nil, errPassthrough
	}
	of := p.of(c.host)
	c.policy = of.identity
	if of.hybrid && !of.offeredHybrid(hello) {
		c.refuse(alertInsufficientSecurity)
		return nil, errNotHybrid
	}
	if narrower := of.preferred.choose(hello); narrower != nil {
		return narrower, nil
	}
	return of.tls, nil
}

// offeredHybrid reports whether a client offers one of the groups, all of which
// are post-quantum.
func (p *policy) offeredHybrid(hello *tls.ClientHelloInfo) bool {
	return slices.Contains(hello.SupportedVersions, tls.VersionTLS13) &&
		slices.ContainsFunc(p.tls.CurvePreferences, func(id tls.CurveID) bool { return slices.Contains(hello.SupportedCurves, id) })
}

// passesThrough reports whether any host is in that mode.
func passesThrough(t *routing.Table) bool {
	for _, h := range t.Hosts() {
		if h.Mode == config.ModePassthrough {
			return true
		}
	}
	return false
}

// certificate returns a function that chooses the certificate for a handshake, and
// what signs with its key: one of the issuer, which may be nil, else one of from.
func (o Options) certificate(from *certificates.Set, issuer Issuer) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	get := from.Certificate
	if issuer != nil {
		get = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if issuer.Serves(hello.ServerName) {
				if cert, err := issuer.Certificate(hello); err == nil {
					return cert, nil
				}
			}
			return from.Certificate(hello)
		}
	}
	if o.Sign == nil {
		return get
	}
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		cert, err := get(hello)
		if cert == nil || err != nil {
			return cert, err
		}
		return o.Sign(cert, hello.Conn.(*conn).sawSignature), nil
	}
}
