package service

import (
	"crypto/fips140"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/signing"
)

// Plan is a configuration with everything read that it names, ready to start.
type Plan struct {
	Config *config.Config
	certs  []*tls.Certificate
	store  *certificates.Store
	pools  map[string]*tls.Config // the policy towards the backends of each
}

// Load reads what the configuration names, and opens no socket.
func Load(c *config.Config) (*Plan, error) {
	p := &Plan{Config: c}
	var errs config.Errors
	if err := checkGroups(c.TLS.CurveIDs()); err != nil {
		errs = append(errs, c.Errorf("tls.groups", "%v", err))
	}
	for i, pair := range c.Certificates {
		cert, err := certificates.Load(pair.Cert, pair.Key)
		if err != nil {
			errs = append(errs, c.Errorf(fmt.Sprintf("certificates[%d]", i), "%v", err))
			continue
		}
		p.certs = append(p.certs, cert)
	}
	errs = append(errs, p.loadPools()...)
	if len(errs) > 0 {
		return nil, errs
	}
	return p.withStore()
}

// LoadWith is Load with a certificate that is in memory, in place of those that
// the configuration names.
func LoadWith(c *config.Config, cert *tls.Certificate) (*Plan, error) {
	if err := checkGroups(c.TLS.CurveIDs()); err != nil {
		return nil, err
	}
	p := &Plan{Config: c, certs: []*tls.Certificate{cert}}
	if errs := p.loadPools(); len(errs) > 0 {
		return nil, errs
	}
	return p.withStore()
}

// checkGroups finds out whether this process can serve the groups.
func checkGroups(ids []tls.CurveID) error {
	if err := groups.RequireHook(ids); err != nil {
		return err
	}
	_, err := groups.Unavailable(ids)
	return err
}

func (p *Plan) withStore() (*Plan, error) {
	var err error
	if p.store, err = certificates.NewStore(p.certs); err != nil {
		return nil, err
	}
	return p, nil
}

// expiresSoon is when a certificate's end is worth a warning.
const expiresSoon = 7 * 24 * time.Hour

// Warnings tell of what is allowed but hardly meant.
func (p *Plan) Warnings() []string {
	var all []string
	now := time.Now()
	for i, cert := range p.certs {
		name := fmt.Sprintf("certificates[%d] (%s)", i, strings.Join(namesOf(cert.Leaf), ", "))
		switch leaf := cert.Leaf; {
		case now.After(leaf.NotAfter):
			all = append(all, fmt.Sprintf("%s expired at %s", name, leaf.NotAfter.Format(time.RFC3339)))
		case now.Before(leaf.NotBefore):
			all = append(all, fmt.Sprintf("%s is not valid before %s", name, leaf.NotBefore.Format(time.RFC3339)))
		case leaf.NotAfter.Sub(now) < expiresSoon:
			all = append(all, fmt.Sprintf("%s expires soon, at %s", name, leaf.NotAfter.Format(time.RFC3339)))
		}
	}
	ids := p.Config.TLS.CurveIDs()
	if out, _ := groups.Unavailable(ids); len(out) > 0 {
		all = append(all, fmt.Sprintf("tls.groups: %s: not available in FIPS 140 mode, in which this process runs, and left out", strings.Join(groups.Names(out), ", ")))
	}
	if !slices.ContainsFunc(ids, groups.PostQuantum) {
		all = append(all, "tls.groups names no post-quantum group; recorded connections can be read once there is a quantum computer")
	}
	if !slices.ContainsFunc(ids, groups.Classical) {
		all = append(all, "tls.groups names no classical group; clients without a post-quantum one, and all clients of TLS 1.2, are refused")
	}
	all = append(all, p.signingWarnings()...)
	all = append(all, unusedPools(p.Config)...)
	return append(all, descriptorWarning(p.Config.Limits)...)
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
	case !slices.ContainsFunc(p.certs, signing.Serves):
		return []string{"provider.gpu.sign is set, but no certificate has an ECDSA key on P-256: no GPU signs"}
	}
	return nil
}

// Certificates describes each certificate in a line.
func (p *Plan) Certificates() []string {
	var all []string
	for _, cert := range p.certs {
		all = append(all, fmt.Sprintf("%s, %s, valid until %s", strings.Join(namesOf(cert.Leaf), ", "),
			cert.Leaf.PublicKeyAlgorithm, cert.Leaf.NotAfter.Format(time.RFC3339)))
	}
	return all
}

func namesOf(leaf *x509.Certificate) []string {
	names := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		names = append(names, leaf.Subject.CommonName)
	}
	return names
}

var errNoListener = errors.New("service: no address to listen on")
