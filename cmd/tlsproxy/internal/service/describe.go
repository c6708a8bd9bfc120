package service

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
)

// place says where the configuration names a certificate.
func (p *Plan) place(cert *certificates.Info) string {
	if cert.Source >= len(p.sources) { // it is in memory
		return fmt.Sprintf("certificates[%d]", cert.Source)
	}
	if s := p.sources[cert.Source]; s.Folder != "" {
		return s.path + " " + cert.File
	}
	return p.sources[cert.Source].path
}

// Certificates describes each certificate in a line.
func (p *Plan) Certificates() []string {
	var all []string
	for _, cert := range p.store.Certificates() {
		line := fmt.Sprintf("%s: %s, %s, valid until %s", p.place(&cert), strings.Join(cert.Names, ", "), cert.Algorithm, cert.NotAfter.Format(time.RFC3339))
		if !cert.StapleUntil.IsZero() {
			line += ", OCSP response valid until " + cert.StapleUntil.Format(time.RFC3339)
		}
		all = append(all, line)
	}
	return all
}

// Hosts describes each host in a line, and then what clients of all other names meet.
func (p *Plan) Hosts() []string {
	c := p.Config
	var all []string
	for i, h := range c.Hosts {
		line := fmt.Sprintf("hosts[%d]: %s: %s to pool %s", i, joined(h.Names), h.Mode, h.Pool)
		for _, r := range h.Routes {
			line += fmt.Sprintf(", %s to pool %s", r.Path, r.Pool)
		}
		if h.Mode != config.ModePassthrough {
			line += policyLine(c.PolicyFor(i))
		}
		all = append(all, line)
	}
	switch {
	case slices.ContainsFunc(c.Hosts, func(h config.Host) bool { return slices.Contains(h.Names, config.AnyHost) }): // told of above
	case c.UnknownHost == config.UnknownHostRefuse:
		all = append(all, "unknown_host: refused")
	default:
		all = append(all, fmt.Sprintf("unknown_host: %s to pool %s%s", config.ModeHTTP, config.DefaultPool, policyLine(c.PolicyFor(-1))))
	}
	return all
}

// policyLine says what a policy leads to, groups in their order.
func policyLine(policy config.Policy) string {
	version, _ := policy.MinVersion.MarshalText()
	line := fmt.Sprintf(", TLS %s or later, groups %s", version, strings.Join(groups.Names(policy.Groups), " "))
	if len(policy.ALPN) > 0 {
		line += ", protocols " + strings.Join(policy.ALPN, " ")
	}
	if policy.ClientAuth.Mode != config.ClientAuthNone {
		line += fmt.Sprintf(", client certificates: %s", policy.ClientAuth.Mode)
	}
	return line
}

// Listeners describes where clients and operators connect, in a line each.
func (p *Plan) Listeners() []string {
	var all []string
	for i, l := range p.Config.Listen {
		line := fmt.Sprintf("listen[%d]: %s", i, l.Address)
		if from := l.ProxyProtocol.From; len(from) > 0 {
			line += fmt.Sprintf(", PROXY protocol %s from %s", l.ProxyProtocol.Mode, networks(from))
		}
		all = append(all, line)
	}
	for i, address := range p.Config.Admin.Listen {
		all = append(all, fmt.Sprintf("admin.listen[%d]: %s", i, address))
	}
	return all
}

// maxNetworks is how many of a listener are worth a place in a line.
const maxNetworks = 8

// networks writes a list of sources into a line.
func networks(list []config.Source) string {
	var words []string
	for _, entry := range list[:min(len(list), maxNetworks)] {
		words = append(words, entry.String())
	}
	if more := len(list) - len(words); more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, " ")
}

// Pools describes each pool in a line.
func (p *Plan) Pools() []string {
	var all []string
	for _, name := range p.Config.PoolNames() {
		pool, _ := p.Config.PoolByName(name)
		urls := make([]string, len(pool.URLs))
		for i, u := range pool.URLs {
			urls[i] = u.String()
		}
		line := fmt.Sprintf("%s: %s, %s", config.PoolPath(name), strings.Join(urls, " "), pool.Balance)
		if strings.HasPrefix(pool.URLs[0].Scheme, "http") {
			line += fmt.Sprintf(", %s", pool.Protocol)
		}
		if pool.Health.Check == config.HealthCheckNone {
			line += ", no health check"
		} else {
			line += fmt.Sprintf(", health check %s", pool.Health.Check)
		}
		if towardsTLS(pool) {
			line += ", groups " + strings.Join(groups.Names(pool.TLS.CurveIDs()), " ")
		}
		if leaf := p.poolCertificate(name); leaf != nil {
			line += ", a certificate valid until " + leaf.NotAfter.Format(time.RFC3339)
		}
		all = append(all, line)
	}
	return all
}

// Summary describes in lines what would run.
func (p *Plan) Summary() []string {
	all := append(p.Listeners(), p.Certificates()...)
	if acme := p.Config.ACME; len(acme.Names) > 0 {
		all = append(all, fmt.Sprintf("acme: %s, from %s", joined(acme.Names), acme.Directory))
	}
	return slices.Concat(all, p.Hosts(), p.Pools())
}

func joined(names []config.HostName) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(name))
	}
	return b.String()
}
