package service

import (
	"crypto/tls"
	"slices"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/provider"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// gpuSchemes returns the parameter sets of the groups that the configuration names,
// towards clients or backends: those that a GPU is worth preparing for. To compile
// a set's kernels takes a driver that has not done so before some seconds. Sets that
// a later configuration adds the CPU serves.
func gpuSchemes(c *config.Config) []*ctruprime.Scheme {
	ids := c.TLS.CurveIDs()
	for _, host := range c.Hosts {
		for _, g := range host.TLS.Groups {
			ids = append(ids, tls.CurveID(g))
		}
	}
	for _, name := range c.PoolNames() {
		pool, _ := c.PoolByName(name)
		for _, g := range pool.TLS.Groups {
			ids = append(ids, tls.CurveID(g))
		}
	}
	var used []*ctruprime.Scheme
	for _, s := range []*ctruprime.Scheme{ctruprime.Scheme653(), ctruprime.Scheme761(), ctruprime.Scheme1277()} {
		if slices.ContainsFunc(ids, func(id tls.CurveID) bool { return groups.Name(id) == provider.HybridName(s) }) {
			used = append(used, s)
		}
	}
	if len(used) == 0 { // a GPU may be there to sign
		used = []*ctruprime.Scheme{ctruprime.Scheme761()}
	}
	return used
}
