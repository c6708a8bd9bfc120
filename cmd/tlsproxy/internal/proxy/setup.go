package proxy

import (
	"crypto/tls"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/routing"
)

// setup is what a configuration leads to. It never changes; Update puts another
// in its place, and whoever has begun with one may go on with it.
type setup struct {
	hosts       *routing.Table
	policies    *policies
	tls         *tls.Config // what handshakes start with
	timeouts    config.Timeouts
	limits      config.Limits
	turns       *turns
	accessLog   bool
	passthrough bool // some host is in that mode
	requests    *handler
}

func newSetup(s *Server, o Options) *setup {
	n := &setup{
		hosts:       o.Hosts,
		timeouts:    o.Config.Timeouts,
		limits:      o.Config.Limits,
		turns:       newTurns(o.Config, o.GPUs),
		accessLog:   o.Config.Log.Requests,
		passthrough: passesThrough(o.Hosts),
		policies:    newPolicies(o),
	}
	n.tls = startConfig(o.Hosts, n.policies, o.Issuer)
	n.requests = newHandler(s, n, o)
	return n
}

// Update makes o what the Server goes by from now on, but for its Logger,
// Observer and Tracer and for what the configuration marks as taking effect at a restart.
// Connections stay open: their next requests are answered as o says, with 421 if
// their hosts now demand something else of clients; what is under way ends as it
// began.
func (s *Server) Update(o Options) { s.live.Store(newSetup(s, o)) }
