package service

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/acme"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxy"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/routing"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/signing"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/systemd"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/tracing"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/upgrade"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/watch"
	"github.com/ctrutls/ctrutls/provider"
)

// Service is a proxy that listens.
type Service struct {
	plan      atomic.Pointer[Plan]
	log       *slog.Logger
	provider  *provider.Provider
	keys      *signing.Keys // nil: certificates' keys sign by themselves
	tickets   *ticketKeys
	tracer    *tracing.Tracer // nil: nothing is traced
	issuer    *acme.Manager   // nil: none has been needed
	proxy     *proxy.Server
	listeners []listener
	operation operation
	draining  atomic.Bool
	manager   systemd.Notifier
	successor *upgrade.Successor // that serves in place of this process; nil: none

	reloads, reloadFailures atomic.Uint64
	failedUpgrades          atomic.Uint64
	failing                 atomic.Pointer[occasion] // the latest reload that failed, until it has been made good; nil: none

	configuration watch.Stamp // of the file when it was last read
	files         watch.Files // the same of what it names, but for the certificates
}

// current is the Plan that the proxy goes by.
func (s *Service) current() *Plan { return s.plan.Load() }

// Start opens the listeners and everything behind them; connections wait until
// Run. A Service that was started has to be Run.
func (p *Plan) Start(logger *slog.Logger) (*Service, error) {
	s := &Service{log: logger, manager: systemd.Notifier{Log: logger}, files: p.files, configuration: p.configuration}
	s.plan.Store(p)
	err := s.listen()
	if err == nil {
		err = s.openOperation()
	}
	unused := p.Sockets.CloseRest()
	if err != nil {
		s.closeListeners()
		return nil, err
	}
	if len(unused) > 0 {
		logger.Warn("sockets that the process was given and that listen does not name are closed", "names", unused)
	}
	if s.provider, err = openProvider(p, logger); err != nil {
		s.closeListeners()
		return nil, err
	}
	if err := s.openProxy(p); err != nil {
		s.closeTickets()
		s.closeIssuer()
		s.closeTracer(time.Now())
		s.closeListeners()
		s.provider.Close()
		return nil, err
	}
	return s, nil
}

// openProxy starts the pools and the proxy in front of them.
func (s *Service) openProxy(p *Plan) error {
	if p.Config.Provider.GPU.Sign {
		s.keys = signing.New(s.provider, s.log)
	}
	if err := s.openTickets(p); err != nil {
		return err
	}
	if err := s.openTracer(p); err != nil {
		return err
	}
	if err := s.manageNames(p); err != nil {
		return err
	}
	pools, err := p.openPools(s.log, nil, nil)
	if err != nil {
		return err
	}
	options, err := s.options(p, pools)
	if err != nil {
		closePools(pools)
		return err
	}
	p.open, s.proxy = pools, proxy.New(options)
	return nil
}

// manageNames has certificates issued for the names of a Plan.
func (s *Service) manageNames(p *Plan) error {
	c := p.Config.ACME
	if s.issuer == nil && len(c.Names) == 0 {
		return nil
	}
	if s.issuer == nil {
		var err error
		s.issuer, err = acme.New(acme.Options{Email: c.Email, Directory: c.Directory, Roots: p.directoryCA, Storage: c.Storage,
			Address: s.challenged(), Logger: s.log})
		if err != nil {
			return err
		}
	}
	names := make([]string, len(c.Names))
	for i, name := range c.Names {
		names[i] = string(name)
	}
	return s.issuer.Manage(names)
}

// closeIssuer ends what is under way at authorities.
func (s *Service) closeIssuer() {
	if s.issuer != nil {
		s.issuer.Close()
	}
}

// options are what the proxy is told of a Plan.
func (s *Service) options(p *Plan, pools map[string]*backend.Pool) (proxy.Options, error) {
	hosts, err := routing.New(p.Config, pools)
	o := proxy.Options{Config: p.Config, Certificates: p.store, ClientCAs: p.clients, Hosts: hosts, Logger: s.log, Observer: s.operation.metrics, Tracer: s.tracer}
	if p.Config.TLS.Tickets.Enabled {
		o.Tickets = s.tickets.Keys
	}
	if s.issuer != nil {
		o.Issuer = s.issuer
	}
	if g := s.provider.Stats().GPU; g != nil {
		o.GPUs = len(g.Devices)
	}
	if s.keys != nil {
		o.Sign = func(cert *tls.Certificate, told func(proxy.Signature)) *tls.Certificate {
			return s.keys.Certificate(cert, func(made signing.Signature) { told(proxy.Signature(made)) })
		}
	}
	return o, err
}

func (s *Service) closeListeners() {
	for _, ln := range s.listeners {
		ln.Close()
	}
	s.operation.close()
}

// openProvider makes the provider and tells crypto/tls about it.
func openProvider(p *Plan, logger *slog.Logger) (*provider.Provider, error) {
	opened, err := provider.Open(p.provider(logger))
	switch {
	case err != nil && p.Config.Provider.Engine == config.EngineGPU:
		return nil, p.Config.Errorf("provider.engine", "%v; to start without a GPU too write engine: auto", err)
	case err != nil:
		return nil, p.Config.Errorf("provider", "%v", err)
	}
	if err := groups.Register(opened); err != nil {
		opened.Close()
		return nil, err
	}
	return opened, nil
}

// provider translates the configuration.
func (p *Plan) provider(logger *slog.Logger) provider.Config {
	c := p.Config.Provider
	o := provider.Config{KeyPoolSize: orNone(c.KeyPool), Engine: provider.Engine(c.Engine), Logger: logger, GPU: provider.GPU{
		Library: c.GPU.Library, Workers: c.GPU.Workers, Capacity: c.GPU.Capacity, MaxWait: time.Duration(c.GPU.MaxWait),
		Hang: time.Duration(c.GPU.Hang), OpenTimeout: time.Duration(c.GPU.OpenTimeout), CheckEvery: orNone(c.GPU.CheckEvery), Sign: c.GPU.Sign,
		Schemes: gpuSchemes(p.Config)}}
	if len(c.GPU.Devices) > 0 {
		o.GPU.Devices = c.GPU.Devices
	}
	return o
}

// orNone turns 0 into provider.Config's word for none.
func orNone(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// Addresses are those that the service listens on, with the ports that the
// system chose.
func (s *Service) Addresses() []net.Addr {
	all := make([]net.Addr, len(s.listeners))
	for i, ln := range s.listeners {
		all[i] = ln.Addr()
	}
	return all
}

// AdminAddresses are those of the admin listeners.
func (s *Service) AdminAddresses() []net.Addr {
	all := make([]net.Addr, len(s.operation.listeners))
	for i, ln := range s.operation.listeners {
		all[i] = ln.Addr()
	}
	return all
}

// Stats returns the proxy's counters.
func (s *Service) Stats() proxy.Stats { return s.proxy.Stats() }

// KeyExchanges returns the provider's counters.
func (s *Service) KeyExchanges() provider.Stats { return s.provider.Stats() }

// Run serves until ctx is done, a listener fails, or a successor serves in its place;
// then drains within the configured time and closes everything. It returns nil but
// for a listener that failed, and a successor that did while this process drained, even
// if connections had to be cut: that is logged.
// Meanwhile it obeys what comes from signals, which may be nil and are those that
// Signals lists, and reads its configuration again when that says so.
func (s *Service) Run(ctx context.Context, signals <-chan os.Signal) error {
	for _, ln := range s.listeners {
		s.log.Info("listening", "address", ln.Addr().String(), "groups", strings.Join(groups.Names(s.current().Config.TLS.CurveIDs()), " "),
			"hosts", len(s.current().Config.Hosts), "pools", len(s.current().open))
	}
	serveCtx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var working sync.WaitGroup
	for _, ln := range s.listeners {
		working.Go(func() {
			if err := s.proxy.ServeBehind(ln, ln.trust); !errors.Is(err, proxy.ErrClosed) {
				fail(err)
			}
		})
	}
	s.operation.serve(fail)
	s.relieve(serveCtx)
	s.manager.Ready(serving)
	watched, unwatch := context.WithCancel(context.Background())
	defer unwatch()
	working.Go(func() { s.manager.Watch(watched, func() { s.proxy.Stats() }) })
	succeeded := s.follow(serveCtx, signals)
	cause := context.Cause(serveCtx)
	if succeeded { // the service manager listens to the successor now
		unwatch()
	}
	if s.end(ctx, succeeded, cause) {
		cause, succeeded = errAlone, false
	}
	unwatch()
	working.Wait()
	s.closeTickets()
	s.closeIssuer()
	s.operation.close()
	closePools(s.current().open)
	s.provider.Close()
	if succeeded || ctx.Err() != nil {
		return nil
	}
	return cause
}

// end drains. With a successor there is more time: until run is done. It reports whether
// that one has broken down meanwhile, for which there is no more time than without.
func (s *Service) end(run context.Context, succeeded bool, cause error) (alone bool) {
	s.draining.Store(true)
	within := time.Duration(s.current().Config.Timeouts.Drain)
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if succeeded {
		s.operation.close() // whoever asks is to hear of the successor
		s.log.Info("leaving", "within", within, "connections", s.proxy.Stats().Open)
		gently, stop := context.WithTimeout(run, within/2)
		defer stop()
		left := s.guard(stop)
		s.proxy.Leave(gently)
		s.drain(ctx)
		return left()
	}
	s.manager.Stopping("draining")
	s.log.Info("draining", "because", cause.Error(), "within", within, "connections", s.proxy.Stats().Open)
	s.drain(ctx)
	return false
}

// drain lets what is under way come to its end.
func (s *Service) drain(ctx context.Context) {
	start := time.Now()
	err := s.proxy.Shutdown(ctx)
	deadline, _ := ctx.Deadline()
	s.closeTracer(deadline)
	if err != nil {
		s.log.Warn("drained", "err", err)
		return
	}
	s.log.Info("drained", "after", time.Since(start))
}
