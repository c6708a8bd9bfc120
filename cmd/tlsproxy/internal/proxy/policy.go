package proxy

import (
	"crypto/tls"
	"errors"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/routing"
)

// policy is how TLS is spoken with the clients of some hosts.
type policy struct {
	tls       *tls.Config
	preferred *preference
}

func newPolicy(c *tls.Config) *policy { return &policy{c, newPreference(c)} }

// policies are those of all hosts. A handshake starts with that of http.
type policies struct {
	http *policy
	tcp  *policy // the protocol within is the backend's matter: no ALPN
}

// newPolicies are the policies of a configuration.
func newPolicies(o Options) *policies {
	c := &tls.Config{
		MinVersion:       uint16(o.Config.TLS.MinVersion),
		CurvePreferences: o.Config.TLS.CurveIDs(),
		GetCertificate:   o.certificate,
	}
	tcp := c.Clone()
	for _, p := range o.Config.TLS.ALPN {
		c.NextProtos = append(c.NextProtos, string(p))
	}
	return &policies{http: newPolicy(c), tcp: newPolicy(tcp)}
}

// Why a handshake ends at its ClientHello.
var (
	errUnknownHost = errors.New("no host of that name is served")
	errPassthrough = errors.New("the connection is passed through")
)

// alertUnrecognizedName is RFC 6066's, section 3.
const alertUnrecognizedName = 112

// startConfig is what every handshake starts with: it notes each ClientHello on
// its connection for the log, finds the host that is asked for, and leads to
// that one's policy.
func startConfig(hosts *routing.Table, p *policies) *tls.Config {
	start := p.http.tls.Clone()
	start.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c := hello.Conn.(*conn)
		c.sawHello(hello)
		c.sni = hello.ServerName
		c.host = hosts.Find(c.sni)
		if c.host == nil || c.host.Mode != config.ModePassthrough {
			c.forgetHello()
		}
		if c.host == nil {
			c.refuse(alertUnrecognizedName)
			return nil, errUnknownHost
		}
		return p.choose(c, hello)
	}
	return start
}

// choose returns the policy for a client of c's host, nil for that which the
// handshake was started with.
func (p *policies) choose(c *conn, hello *tls.ClientHelloInfo) (*tls.Config, error) {
	switch c.host.Mode {
	case config.ModePassthrough:
		c.fallSilent()
		return nil, errPassthrough
	case config.ModeTCP:
		if narrower := p.tcp.preferred.choose(hello); narrower != nil {
			return narrower, nil
		}
		return p.tcp.tls, nil
	}
	return p.http.preferred.choose(hello), nil
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

// certificate chooses the certificate for a handshake, and what signs with its key.
func (o Options) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	cert, err := o.Certificates.Certificate(hello)
	if err != nil || o.Sign == nil {
		return cert, err
	}
	return o.Sign(cert), nil
}
