package service

import (
	"fmt"
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

// Hosts describes each host in a line.
func (p *Plan) Hosts() []string {
	var all []string
	for i, h := range p.Config.Hosts {
		line := fmt.Sprintf("hosts[%d]: %s: %s to pool %s", i, joined(h.Names), h.Mode, h.Pool)
		if h.Mode != config.ModePassthrough {
			policy := p.Config.PolicyFor(i)
			version, _ := policy.MinVersion.MarshalText()
			line += fmt.Sprintf(", TLS %s or later, groups %s", version, strings.Join(groups.Names(policy.Groups), " "))
			if len(policy.ALPN) > 0 {
				line += ", protocols " + strings.Join(policy.ALPN, " ")
			}
			if policy.ClientAuth.Mode != config.ClientAuthNone {
				line += fmt.Sprintf(", client certificates: %s", policy.ClientAuth.Mode)
			}
		}
		if most := h.Limits.Connections; most > 0 {
			line += fmt.Sprintf(", %d connections at most", most)
		}
		all = append(all, line)
	}
	return all
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
