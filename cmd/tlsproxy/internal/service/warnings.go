package service

import (
	"crypto/fips140"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxy"
)

const (
	expiresSoon = 7 * 24 * time.Hour // when a certificate's end is worth a warning
	maxWarned   = 50                 // certificates, and hosts, of which there can be 100,000
)

// Warnings tell of what is allowed but hardly meant.
func (p *Plan) Warnings() []string {
	all := p.certificateWarnings()
	all = append(all, groupWarnings("tls.groups", p.Config.TLS.CurveIDs())...)
	all = append(all, p.hostWarnings()...)
	all = append(all, frontWarnings(p.Config)...)
	all = append(all, p.signingWarnings()...)
	all = append(all, storageWarning(p.Config.ACME)...)
	all = append(all, unusedPools(p.Config)...)
	all = append(all, p.poolWarnings(time.Now())...)
	all = append(all, idleWarnings(p.Config)...)
	all = append(all, offWarnings(p.Config.Timeouts)...)
	return append(all, descriptorWarning(p.Config.Limits)...)
}

// groupWarnings are about a list of groups, and where it is.
func groupWarnings(path string, ids []tls.CurveID) (all []string) {
	if out, _ := groups.Unavailable(ids); len(out) > 0 {
		all = append(all, fmt.Sprintf("%s: %s: not available in FIPS 140 mode, in which this process runs, and left out", path, strings.Join(groups.Names(out), ", ")))
	}
	switch {
	case !slices.ContainsFunc(ids, groups.PostQuantum):
		all = append(all, path+" names no post-quantum group; recorded connections can be read once there is a quantum computer")
	case !slices.Contains(ids, tls.X25519MLKEM768) && slices.ContainsFunc(ids, groups.Classical):
		all = append(all, path+" leaves out X25519MLKEM768, the post-quantum group that browsers have; they get a classical one")
	}
	if !slices.ContainsFunc(ids, groups.Classical) {
		all = append(all, path+" names no classical group; clients without a post-quantum one, and all clients of TLS 1.2, are refused")
	}
	return all
}

// frontWarnings are about listeners that believe everybody.
func frontWarnings(c *config.Config) (all []string) {
	for i, l := range c.Listen {
		for j, from := range l.ProxyProtocol.From {
			if !from.Unix && from.Prefix.Bits() == 0 {
				all = append(all, fmt.Sprintf("listen[%d].proxy_protocol.from[%d]: %s is everybody; any client can claim any address", i, j, from))
			}
		}
	}
	return all
}

// hostWarnings are about the hosts' own policies, and about names that no
// certificate is for.
func (p *Plan) hostWarnings() (all []string) {
	for i, h := range p.Config.Hosts {
		if h.Mode == config.ModePassthrough {
			continue
		}
		path := fmt.Sprintf("hosts[%d]", i)
		if policy := p.Config.PolicyFor(i); len(h.TLS.Groups) > 0 && !policy.RequireHybrid {
			all = append(all, groupWarnings(path+".tls.groups", policy.Groups)...)
		}
		set := p.store.Set(p.certificateSet(i))
		for _, name := range h.Names {
			if name != config.AnyHost && !set.Covers(string(name)) && !slices.Contains(p.Config.ACME.Names, name) {
				all = append(all, fmt.Sprintf("%s: no certificate is valid for %s; clients get one that they will not accept", path, name))
			}
		}
	}
	if more := len(all) - maxWarned; more > 0 {
		all = append(all[:maxWarned], fmt.Sprintf("and %d more about hosts", more))
	}
	return all
}

// poolWarnings are about the names of backends, the groups towards them, and the
// certificates for them.
func (p *Plan) poolWarnings(now time.Time) (all []string) {
	for _, name := range p.Config.PoolNames() {
		pool, _ := p.Config.PoolByName(name)
		if pool.Resolve != 0 && !slices.ContainsFunc(pool.URLs, config.URL.Named) {
			all = append(all, config.PoolPath(name)+".resolve is set, but no URL of the pool holds a name: nothing is looked up")
		}
		path := config.PoolPath(name) + ".tls."
		if towardsTLS(pool) && !slices.ContainsFunc(pool.TLS.CurveIDs(), groups.PostQuantum) {
			all = append(all, path+"groups names no post-quantum group; recorded connections can be read once there is a quantum computer")
		}
		if leaf := p.poolCertificate(name); leaf != nil {
			for _, problem := range problemsOf(&certificates.Info{NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter}, now) {
				all = append(all, path+"cert "+problem)
			}
		}
	}
	return all
}

// towardsTLS says whether a pool has backends that are spoken to in TLS.
func towardsTLS(pool config.Pool) bool { return slices.ContainsFunc(pool.URLs, config.URL.Secure) }

// poolCertificate is what backends of a pool are shown; nil: nothing.
func (p *Plan) poolCertificate(name string) *x509.Certificate {
	if policy := p.pools[name]; policy != nil && len(policy.Certificates) > 0 {
		return policy.Certificates[0].Leaf
	}
	return nil
}

// idleWarnings are about settings of what a key of its own switches off. They may be
// there for when it is switched on again.
func idleWarnings(c *config.Config) (all []string) {
	d := config.Default()
	if t := c.TLS.Tickets; !t.Enabled && (t.Secrets != "" || t.Store.URL != "") {
		all = append(all, "tls.tickets.secrets is set, but tls.tickets.enabled is false: no session is resumed")
	}
	if t := c.Tracing; t.Endpoint != "" && t.Ratio == 0 && len(t.Trust) == 0 {
		all = append(all, "tracing.endpoint is set, but tracing.ratio is 0 and tracing.trust names nobody: nothing is traced")
	}
	if l := c.Limits; l.HandshakeRatePerSource == 0 && (l.HandshakeBurstPerSource != d.Limits.HandshakeBurstPerSource || l.Sources != d.Limits.Sources) {
		all = append(all, "limits.handshake_burst_per_source or limits.sources is set, but limits.handshake_rate_per_source is 0: a source may begin as many handshakes as it likes")
	}
	gpu := c.Provider.GPU
	gpu.Sign = false // signingWarnings has that
	if len(gpu.Devices) == 0 {
		gpu.Devices = nil
	}
	if c.Provider.Engine == config.EngineCPU && !reflect.DeepEqual(gpu, d.Provider.GPU) {
		all = append(all, "provider.gpu has settings, but provider.engine is cpu: no GPU is used")
	}
	if n := c.Provider.KeyPool; n != 0 && n != d.Provider.KeyPool && !namesOurs(c) {
		all = append(all, "provider.key_pool is set, but no pool's tls.groups names a group of ours: no key pair is made ahead")
	}
	return all
}

// namesOurs reports whether a pool offers its backends a group of ours.
func namesOurs(c *config.Config) bool {
	return slices.ContainsFunc(c.PoolNames(), func(name string) bool {
		pool, _ := c.PoolByName(name)
		return slices.ContainsFunc(pool.TLS.CurveIDs(), groups.Ours)
	})
}

// offWarnings are about bounds that are off and by default are not.
func offWarnings(t config.Timeouts) (all []string) {
	const clients, silence = "clients can keep requests open for ever", "a backend that falls silent keeps requests open until their clients leave"
	for _, bound := range []struct {
		key      string
		is       config.Duration
		whatThen string
	}{
		{"read_body", t.ReadBody, clients + " by sending nothing"},
		{"write", t.Write, clients + " by taking nothing"},
		{"tunnel", t.Tunnel, "upgraded connections, and those of mode tcp and passthrough, stay open though nothing passes"},
		{"backend_write", t.BackendWrite, silence},
		{"backend_response", t.BackendResponse, silence},
		{"backend_read", t.BackendRead, silence},
	} {
		if bound.is == 0 {
			all = append(all, fmt.Sprintf("timeouts.%s is off: %s", bound.key, bound.whatThen))
		}
	}
	return all
}

// certificateSet is the set of certificates of a host.
func (p *Plan) certificateSet(host int) int {
	if len(p.Config.Hosts[host].Certificates) > 0 {
		return proxy.CertificateSet(host)
	}
	return 0
}

// signingWarnings tell why GPUs would sign nothing.
func (p *Plan) signingWarnings() []string {
	switch c := p.Config.Provider; {
	case !c.GPU.Sign:
		return nil
	case c.Engine == config.EngineCPU:
		return []string{"provider.gpu.sign is set, but provider.engine is cpu: no GPU signs"}
	case fips140.Enabled():
		return []string{"provider.gpu.sign is set, but this process runs in FIPS 140 mode: no GPU signs"}
	case !slices.ContainsFunc(p.store.Certificates(), func(i certificates.Info) bool { return i.Algorithm == certificates.ECDSAP256 }):
		return []string{"provider.gpu.sign is set, but no certificate has an ECDSA key on P-256: no GPU signs"}
	}
	return nil
}

func (p *Plan) certificateWarnings() (all []string) {
	now := time.Now()
	for _, cert := range p.store.Certificates() {
		for _, problem := range problemsOf(&cert, now) {
			all = append(all, fmt.Sprintf("%s (%s) %s", p.place(&cert), strings.Join(cert.Names, ", "), problem))
		}
	}
	if more := len(all) - maxWarned; more > 0 {
		all = append(all[:maxWarned], fmt.Sprintf("and %d more about certificates", more))
	}
	return all
}

// problemsOf lists what is wrong with a certificate.
func problemsOf(cert *certificates.Info, now time.Time) (all []string) {
	switch {
	case now.After(cert.NotAfter):
		all = append(all, "expired at "+cert.NotAfter.Format(time.RFC3339))
	case now.Before(cert.NotBefore):
		all = append(all, "is not valid before "+cert.NotBefore.Format(time.RFC3339))
	case cert.NotAfter.Sub(now) < expiresSoon:
		all = append(all, "expires soon, at "+cert.NotAfter.Format(time.RFC3339))
	}
	if cert.Problem != "" {
		all = append(all, "has an OCSP response of no use: "+cert.Problem)
	}
	return all
}
