package proxy

import (
	"crypto/tls"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

// setup is what a configuration leads to. It never changes; Update puts another
// in its place, and whoever has begun with one may go on with it.
type setup struct {
	tls      *tls.Config
	timeouts config.Timeouts
	limits   config.Limits
	requests *handler
}

func newSetup(s *Server, o Options) *setup {
	n := &setup{tls: tlsConfig(o), timeouts: o.Config.Timeouts, limits: o.Config.Limits}
	n.requests = newHandler(s, n, o)
	return n
}

// Update makes o what the Server goes by from now on, but for its Logger and for
// what the configuration marks as taking effect at a restart. Connections stay
// open: their next requests are answered as o says, and what is under way ends as
// it began.
func (s *Server) Update(o Options) { s.live.Store(newSetup(s, o)) }

// tlsConfig is the policy of a configuration. Each ClientHello is noted on its
// connection for the log, and may lead to a narrower policy.
func tlsConfig(o Options) *tls.Config {
	c := &tls.Config{
		MinVersion:       uint16(o.Config.TLS.MinVersion),
		CurvePreferences: o.Config.TLS.CurveIDs(),
		GetCertificate:   o.Certificates.Certificate,
	}
	for _, p := range o.Config.TLS.ALPN {
		c.NextProtos = append(c.NextProtos, string(p))
	}
	preferred := newPreference(c)
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		hello.Conn.(*conn).sawHello(hello)
		return preferred.choose(hello), nil
	}
	return c
}
