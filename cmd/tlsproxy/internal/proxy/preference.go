package proxy

import (
	"crypto/tls"
	"slices"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
)

// preference makes crypto/tls keep to the order of a list of groups. Of itself
// it does so, through the hook, only where the list names a group of ours; of
// any other it takes what the list allows and decides by its own order. It
// cannot choose wrongly from a list of one group.
type preference struct {
	order []tls.CurveID
	only  map[tls.CurveID]*tls.Config // for each of order: the policy with that group alone
}

// newPreference returns nil where the hook does what is wanted. The policies are
// clones of c, session tickets included.
func newPreference(c *tls.Config) *preference {
	p := &preference{only: map[tls.CurveID]*tls.Config{}}
	for _, id := range c.CurvePreferences {
		if groups.Ours(id) && groups.Available(id) {
			return nil
		}
		if !groups.Available(id) {
			continue
		}
		one := c.Clone()
		one.CurvePreferences = []tls.CurveID{id}
		one.GetConfigForClient = nil
		p.order = append(p.order, id)
		p.only[id] = one
	}
	return p
}

// choose returns the policy for a client: the one of the first group that it
// offers. It returns nil, and leaves the matter to crypto/tls, if it offers none
// and before TLS 1.3, where the group and the certificate depend on each other.
func (p *preference) choose(hello *tls.ClientHelloInfo) *tls.Config {
	if p == nil || !slices.Contains(hello.SupportedVersions, tls.VersionTLS13) {
		return nil
	}
	for _, id := range p.order {
		if slices.Contains(hello.SupportedCurves, id) {
			return p.only[id]
		}
	}
	return nil
}
