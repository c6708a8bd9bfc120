package service

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxy"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/sockets"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/tracing"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/upgrade"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/watch"
)

// Plan is a configuration with everything read that it names, ready to start.
type Plan struct {
	Config *config.Config
	Level  *slog.LevelVar // follows log.level when that is changed by a reload; nil: nothing does
	// DemoLoad has a demonstration make load, or says why it does not; nil where there is none.
	DemoLoad func() error
	// DemoLoading says whether it makes some. It is set where DemoLoad is.
	DemoLoading func() bool

	// Sockets are what the process was given to listen on; nil: nothing. Start takes
	// those that the configuration names, and closes the others.
	Sockets *sockets.Given
	// Predecessor is the process whose place this one takes; nil: nobody's.
	Predecessor *upgrade.Predecessor

	store       *certificates.Store
	sources     []named                              // that store was read from
	given       bool                                 // store is of a certificate in memory, in place of those that the configuration names
	pools       map[string]*tls.Config               // the policy towards the backends of each
	clients     map[string]*certificates.Authorities // by their files
	directoryCA *x509.CertPool                       // of the ACME authority; nil: the system's
	tickets     ticketFiles
	tracing     tracing.Options // but for the Logger; its Endpoint "": nothing is traced

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
	var errs config.Errors
	errs = append(errs, p.loadPools()...)
	errs = append(errs, p.readPolicies()...)
	errs = append(errs, p.readCertificates(r)...)
	return errs.Sorted()
}

// named is where the configuration has certificates from, and its path there.
type named struct {
	certificates.Source
	path string
}

// sources lists where the configuration has certificates from: those of the whole
// proxy, then those of hosts.
func sources(c *config.Config) (all []named) {
	add := func(list []config.Certificate, set int, path string) {
		for i, s := range list {
			all = append(all, named{certificates.Source{Pair: certificates.Pair{Cert: s.Cert, Key: s.Key}, Folder: s.Folder, Set: set}, fmt.Sprintf("%s[%d]", path, i)})
		}
	}
	add(c.Certificates, 0, "certificates")
	for i := range c.Hosts {
		add(c.Hosts[i].Certificates, proxy.CertificateSet(i), fmt.Sprintf("hosts[%d].certificates", i))
	}
	return all
}

// readPolicies reads what the policies towards clients name, and finds out whether
// this process can serve them.
func (p *Plan) readPolicies() (errs config.Errors) {
	c := p.Config
	if err := checkGroups(c.TLS.CurveIDs()); err != nil {
		errs = append(errs, c.Errorf("tls.groups", "%v", err))
	}
	p.clients = map[string]*certificates.Authorities{}
	errs = append(errs, p.readClientCA("tls", c.TLS.ClientAuth)...)
	for i := range c.Hosts {
		path, h := fmt.Sprintf("hosts[%d].tls", i), &c.Hosts[i].TLS
		if err := checkGroups(h.CurveIDs()); err != nil && len(h.Groups) > 0 {
			errs = append(errs, c.Errorf(path+".groups", "%v", err))
		}
		errs = append(errs, p.readClientCA(path, h.ClientAuth)...)
	}
	if file := c.ACME.DirectoryCA; file != "" {
		p.files.Note(file)
		var err error
		if p.directoryCA, err = certificates.LoadPool(file); err != nil {
			errs = append(errs, c.Errorf("acme.directory_ca", "%v", err))
		}
	}
	errs = append(errs, p.readTickets()...)
	errs = append(errs, p.readTracing()...)
	return errs
}

func (p *Plan) readClientCA(path string, auth config.ClientAuth) config.Errors {
	if auth.CA == "" || p.clients[auth.CA] != nil {
		return nil
	}
	p.files.Note(auth.CA)
	a, err := certificates.LoadAuthorities(auth.CA)
	if err != nil {
		return config.Errors{p.Config.Errorf(path+".client_auth.ca", "%v", err)}
	}
	p.clients[auth.CA] = a
	return nil
}

func (p *Plan) readCertificates(r reading) (errs config.Errors) {
	if p.given {
		return nil
	}
	var faults []*certificates.Fault
	var err error
	p.sources = sources(p.Config)
	from := make([]certificates.Source, len(p.sources))
	for i, s := range p.sources {
		from[i] = s.Source
	}
	if r.before == nil {
		p.store, faults, err = certificates.Open(from, certificates.Options{Parsed: p.Config.Limits.ParsedCertificates})
	} else {
		p.store, faults, err = r.before.store.Reload(from, r.all)
	}
	for _, f := range faults {
		if f.Kept || !r.strict {
			p.faults = append(p.faults, f)
			continue
		}
		errs = append(errs, p.Config.Errorf(p.sources[f.Source].path, "%v", f))
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
