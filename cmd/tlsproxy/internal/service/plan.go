package service

import (
	"crypto/fips140"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/watch"
)

// Plan is a configuration with everything read that it names, ready to start.
type Plan struct {
	Config *config.Config
	store  *certificates.Store
	given  bool                   // store is of a certificate in memory, in place of those that the configuration names
	pools  map[string]*tls.Config // the policy towards the backends of each

	open map[string]*backend.Pool // once the proxy goes by this Plan

	configuration watch.Stamp           // of the file, before it was read
	files         watch.Files           // that were read, but for the certificates
	faults        []*certificates.Fault // in spite of which there is a Plan
}

// LoadFile reads a configuration file and what it names, and opens no socket.
func LoadFile(file string) (*Plan, error) {
	seen := watch.Of(file)
	c, err := config.Load(file)
	if err != nil {
		return nil, err
	}
	p, err := Load(c)
	if err == nil {
		p.configuration = seen
	}
	return p, err
}

// Load reads what the configuration names, and opens no socket.
func Load(c *config.Config) (*Plan, error) {
	p := &Plan{Config: c}
	if err := p.read(reading{strict: true}); err != nil {
		return nil, err
	}
	return p, nil
}

// LoadWith is Load with a certificate that is in memory, in place of those that
// the configuration names.
func LoadWith(c *config.Config, cert *tls.Certificate) (*Plan, error) {
	store, err := certificates.NewStore([]*tls.Certificate{cert})
	if err != nil {
		return nil, err
	}
	p := &Plan{Config: c, store: store, given: true}
	if err := p.read(reading{strict: true}); err != nil {
		return nil, err
	}
	return p, nil
}

// reading says how a Plan's files are read.
type reading struct {
	before *Plan // the running one; nil: none
	strict bool  // a certificate that can't be read is an error, but for one that before has
	all    bool  // read those too that do not look changed
}

// read reads what the configuration names. Which files it tried is in p.files,
// even if it fails.
func (p *Plan) read(r reading) error {
	c := p.Config
	var errs config.Errors
	if err := checkGroups(c.TLS.CurveIDs()); err != nil {
		errs = append(errs, c.Errorf("tls.groups", "%v", err))
	}
	errs = append(errs, p.loadPools()...)
	errs = append(errs, p.readCertificates(r)...)
	return errs.Sorted()
}

// sources are where the configuration has certificates from.
func sources(c *config.Config) []certificates.Source {
	all := make([]certificates.Source, len(c.Certificates))
	for i, s := range c.Certificates {
		all[i] = certificates.Source{Pair: certificates.Pair{Cert: s.Cert, Key: s.Key}, Folder: s.Folder}
	}
	return all
}

func (p *Plan) readCertificates(r reading) (errs config.Errors) {
	if p.given {
		return nil
	}
	var faults []*certificates.Fault
	var err error
	if r.before == nil {
		p.store, faults, err = certificates.Open(sources(p.Config), certificates.Options{Parsed: p.Config.Limits.ParsedCertificates})
	} else {
		p.store, faults, err = r.before.store.Reload(sources(p.Config), r.all)
	}
	for _, f := range faults {
		if f.Kept || !r.strict {
			p.faults = append(p.faults, f)
			continue
		}
		errs = append(errs, p.Config.Errorf(fmt.Sprintf("certificates[%d]", f.Source), "%v", f))
	}
	if err != nil && len(errs) == 0 {
		errs = append(errs, p.Config.Errorf("certificates", "%v", err))
	}
	return errs
}

// checkGroups finds out whether this process can serve the groups.
func checkGroups(ids []tls.CurveID) error {
	if err := groups.RequireHook(ids); err != nil {
		return err
	}
	_, err := groups.Unavailable(ids)
	return err
}

const (
	expiresSoon = 7 * 24 * time.Hour // when a certificate's end is worth a warning
	maxWarned   = 50                 // certificates, of what can be 100,000
)

// Warnings tell of what is allowed but hardly meant.
func (p *Plan) Warnings() []string {
	all := p.certificateWarnings()
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

// place says where the configuration names a certificate.
func (p *Plan) place(cert *certificates.Info) string {
	path := fmt.Sprintf("certificates[%d]", cert.Source)
	if cert.Source < len(p.Config.Certificates) && p.Config.Certificates[cert.Source].Folder != "" {
		return path + " " + cert.File
	}
	return path
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

var errNoListener = errors.New("service: no address to listen on")
