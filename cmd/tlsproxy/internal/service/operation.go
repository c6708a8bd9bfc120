package service

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/admin"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/build"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/metrics"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/sockets"
	"github.com/ctrutls/ctrutls/provider"
)

// operation is what those who run a Service see of it.
type operation struct {
	server    *admin.Server
	listeners []sockets.Listener
	metrics   *metrics.Metrics
	started   time.Time
	serving   sync.WaitGroup
}

// openOperation opens the admin listeners. Nothing is answered before serve.
func (s *Service) openOperation() error {
	o := &s.operation
	o.started = time.Now()
	o.metrics = metrics.New()
	o.metrics.Follow(s.state)
	o.server = admin.New(admin.Options{Ready: s.ready, Health: s.health, Config: func() []byte { return s.current().Config.YAML() }, Status: s.status, Live: s.live,
		DemoLoad: s.current().DemoLoad, Metrics: o.metrics.Gatherer(), Logger: s.log})
	for i, address := range s.current().Config.Admin.Listen {
		opened, err := sockets.Spec{For: "admin", TCP: string(address)}.Open(s.current().Sockets)
		if err != nil {
			return s.current().Config.Errorf(fmt.Sprintf("admin.listen[%d]", i), "%v", err)
		}
		o.listeners = append(o.listeners, opened...)
	}
	return nil
}

// serve answers on the admin listeners until close; fail is told if one fails.
func (o *operation) serve(fail func(error)) {
	for _, ln := range o.listeners {
		o.serving.Go(func() {
			if err := o.server.Serve(ln); err != nil {
				fail(err)
			}
		})
	}
}

func (o *operation) close() {
	for _, ln := range o.listeners {
		ln.Close()
	}
	if o.server != nil {
		o.server.Close()
	}
	o.serving.Wait()
}

var errDraining = errors.New("draining")

// ready implements admin.Options.
func (s *Service) ready() error {
	if s.draining.Load() {
		return errDraining
	}
	return nil
}

// health implements admin.Options.
func (s *Service) health() (lines []string) {
	if st := s.provider.Stats(); st.GPU != nil {
		for _, d := range st.GPU.Devices {
			if d.State != "open" {
				lines = append(lines, fmt.Sprintf("GPU %d (%s) is %s since %s; the CPU does its work: %s", d.Number, d.Name, d.State, d.Since.Format(time.RFC3339), d.LastError))
			}
		}
	}
	for name, pool := range s.poolStatus() {
		out := 0
		for _, b := range pool {
			if !b.Up() {
				out++
			}
		}
		if out > 0 {
			lines = append(lines, fmt.Sprintf("%d of %d backends of the pool %s take no part", out, len(pool), name))
		}
	}
	now := time.Now()
	for _, cert := range s.current().store.Certificates() {
		if now.After(cert.NotAfter) && len(lines) < maxWarned {
			lines = append(lines, fmt.Sprintf("the certificate for %s expired at %s", cert.Names, cert.NotAfter.Format(time.RFC3339)))
		}
	}
	return lines
}

// state implements metrics.Metrics.Follow's source.
func (s *Service) state() metrics.State {
	certs := s.current().store.Certificates()
	st := metrics.State{Proxy: s.proxy.Stats(), Draining: s.draining.Load(), KeyExchanges: s.provider.Stats(), Certificates: len(certs),
		Reloads: s.reloads.Load(), ReloadFailures: s.reloadFailures.Load(), ReloadFailing: s.failing.Load() != nil || len(s.current().faults) > 0, FailedUpgrades: s.failedUpgrades.Load(),
		Pools: map[string]metrics.Pool{}, Tracing: s.tracer.Stats()}
	for _, cert := range soonest(certs) {
		st.Expiries = append(st.Expiries, metrics.Expiry{Names: cert.Names, At: cert.NotAfter})
	}
	for name, pool := range s.current().open {
		st.Pools[name] = metrics.Pool{Backends: pool.Status(), Latency: pool.Latency()}
	}
	return st
}

// Status is what /status tells.
type Status struct {
	Version      string                      `json:"version"`
	Go           string                      `json:"go"`
	Started      time.Time                   `json:"started"`
	Draining     bool                        `json:"draining"`
	Listening    []string                    `json:"listening"`
	Connections  int                         `json:"connections"`
	Handshakes   map[string]uint64           `json:"handshakes"` // by group
	Failed       uint64                      `json:"failed_handshakes"`
	Shed         uint64                      `json:"shed_connections"`
	KeyExchanges provider.Stats              `json:"key_exchanges"`
	Pools        map[string][]backend.Status `json:"pools"`
	Health       []string                    `json:"out_of_order"`
}

// status implements admin.Options.
func (s *Service) status() any {
	st := s.proxy.Stats()
	status := Status{Version: build.Version(), Go: runtime.Version(), Started: s.operation.started, Draining: s.draining.Load(), Connections: st.Open, Handshakes: map[string]uint64{}, Failed: st.Failed,
		Shed: st.Shed, Pools: s.poolStatus(), KeyExchanges: s.provider.Stats(), Health: s.health()}
	for _, a := range s.Addresses() {
		status.Listening = append(status.Listening, a.String())
	}
	for id, n := range st.Handshakes {
		status.Handshakes[groups.Label(id)] += n
	}
	return status
}

// poolStatus describes the backends of each pool.
func (s *Service) poolStatus() map[string][]backend.Status {
	all := map[string][]backend.Status{}
	for name, pool := range s.current().open {
		all[name] = pool.Status()
	}
	return all
}
