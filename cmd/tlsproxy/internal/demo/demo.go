package demo

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/comparison"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/loadgen"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/machine"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/service"
)

// serverName is the name in the certificate that the clients verify.
const serverName = "localhost"

// Bounds of Options.
const (
	MaxRounds      = 1000
	MaxDuration    = time.Hour
	MaxConcurrency = 4096 // what the proxy takes in their handshake at once
)

// Options say what is measured and for how long.
type Options struct {
	Listen      string        // the proxy's address; port 0: any free one
	Groups      []tls.CurveID // at least one; ratios are to X25519, else to the first
	Rounds      int           // of each measurement
	Duration    time.Duration // of one measurement in one round
	Concurrency int           // connections at once
	Provider    config.Provider
	Admin       []config.AdminAddress // where the live page is; none: nowhere
	Client      []string              // the command that runs loadgen.Serve
	Stderr      io.Writer             // the client's
	Logger      *slog.Logger
}

func (o Options) validate() error {
	switch {
	case len(o.Groups) == 0:
		return fmt.Errorf("demo: no group to measure")
	case o.Rounds < 1 || o.Rounds > MaxRounds:
		return fmt.Errorf("demo: %d rounds; possible are 1 to %d", o.Rounds, MaxRounds)
	case o.Duration < time.Millisecond || o.Duration > MaxDuration:
		return fmt.Errorf("demo: a duration of %v; possible are 1ms to %v", o.Duration, MaxDuration)
	case o.Concurrency < 1 || o.Concurrency > MaxConcurrency:
		return fmt.Errorf("demo: %d connections at once; possible are 1 to %d", o.Concurrency, MaxConcurrency)
	}
	return nil
}

// Demo is a proxy with its backend, both running.
type Demo struct {
	options Options
	cert    *tls.Certificate
	backend *http.Server
	service *service.Service
	ctx     context.Context
	stop    context.CancelFunc
	stopped chan error

	loading atomic.Bool // a load from the live page runs
	loads   sync.WaitGroup
}

// Start starts the backend and the proxy. Close them.
func Start(o Options) (*Demo, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	cert, err := certificates.SelfSigned(serverName, "127.0.0.1", "::1")
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo: starting the backend: %w", err)
	}
	d := &Demo{options: o, cert: cert, backend: &http.Server{Handler: http.HandlerFunc(greet)}, stopped: make(chan error, 1)}
	go d.backend.Serve(ln)
	d.ctx, d.stop = context.WithCancel(context.Background())
	plan, err := service.LoadWith(d.config(ln.Addr()), cert)
	if err == nil {
		plan.DemoLoad, plan.DemoLoading = d.startLoad, d.loading.Load
		d.service, err = plan.Start(o.Logger)
	}
	if err != nil {
		d.stop()
		d.backend.Close()
		return nil, err
	}
	go func() { d.stopped <- d.service.Run(d.ctx, nil) }()
	return d, nil
}

// greeting is what the backend answers.
const greeting = "hello from the backend, through tlsproxy\n"

func greet(w http.ResponseWriter, r *http.Request) { io.WriteString(w, greeting) }

// longestWait is for a turn to compute a key exchange: a load is measured, not shed.
const longestWait = time.Minute

// config is the default one but for where to listen, the one client there is,
// and the groups: each connection names one, and the server has to take it.
func (d *Demo) config(backend net.Addr) *config.Config {
	c := config.Default()
	c.Listen = []config.Listener{config.ListenOn(d.options.Listen)}
	c.TLS.Groups = nil
	for _, id := range d.options.Groups {
		c.TLS.Groups = append(c.TLS.Groups, config.Group(id))
	}
	c.Backends.URLs = []config.URL{{URL: &url.URL{Scheme: "http", Host: backend.String()}}}
	c.Limits.HandshakesPerSource, c.Limits.ConnectionsPerSource = c.Limits.Handshakes, c.Limits.Connections
	c.Limits.KeyExchangeWait = config.Duration(longestWait)
	c.Provider = d.options.Provider
	c.Admin.Listen = d.options.Admin
	c.Timeouts.Drain = config.Duration(time.Second)
	return c
}

// Address is where the proxy listens.
func (d *Demo) Address() string { return d.service.Addresses()[0].String() }

// AdminAddress is where the live page is; empty if it is nowhere.
func (d *Demo) AdminAddress() string {
	for _, a := range d.service.AdminAddresses() {
		return a.String()
	}
	return ""
}

// loadSpan is how long a load from the live page runs with each group.
const loadSpan = 5 * time.Second

// startLoad makes load with each group in turn, with a request on every
// connection, unless it does so already.
func (d *Demo) startLoad() error {
	if !d.loading.CompareAndSwap(false, true) {
		return errors.New("a load runs already")
	}
	d.loads.Go(func() {
		defer d.loading.Store(false)
		c, err := startClient(d.ctx, d.options)
		if err != nil {
			d.options.Logger.Error("demo: the load's client", "err", err)
			return
		}
		defer c.close()
		for _, id := range d.options.Groups {
			if _, err := c.do(loadgen.Task{Load: d.load(id, 1), Span: loadgen.Span{Duration: loadSpan}}); err != nil {
				if d.ctx.Err() == nil {
					d.options.Logger.Error("demo: the load", "err", err)
				}
				return
			}
		}
	})
	return nil
}

// Close stops the proxy and the backend.
func (d *Demo) Close() error {
	d.stop()
	d.loads.Wait()
	err := <-d.stopped
	d.backend.Close()
	return err
}

// Measure runs the client and returns the report. The error tells if the
// measurement could not be done; that handshakes failed is in the report.
func (d *Demo) Measure(ctx context.Context) (*Report, error) {
	c, err := startClient(ctx, d.options)
	if err != nil {
		return nil, err
	}
	defer c.close()
	r := &Report{Machine: machine.This(), Certificate: "ECDSA P-256", Rounds: d.options.Rounds, Duration: d.options.Duration, Concurrency: d.options.Concurrency}
	for _, id := range d.options.Groups {
		probe, err := d.probe(c, id)
		if err != nil {
			return nil, err
		}
		r.Probes = append(r.Probes, *probe)
	}
	for requests, rows := range []*[]comparison.Row{&r.Handshakes, &r.Requests} {
		samples, err := d.samples(c, requests, d.options.Concurrency)
		if err != nil {
			return nil, err
		}
		*rows = comparison.Rows(subjects(d.options.Groups), d.options.Concurrency, samples)
	}
	r.KeyExchanges = d.KeyExchanges()
	return r, nil
}

// Handshakes makes the rounds of handshakes alone, with so many connections at once, and returns the samples of each group, one for each
// round.
func (d *Demo) Handshakes(ctx context.Context, concurrency int) ([][]comparison.Sample, error) {
	if concurrency < 1 || concurrency > MaxConcurrency {
		return nil, fmt.Errorf("demo: %d connections at once; possible are 1 to %d", concurrency, MaxConcurrency)
	}
	c, err := startClient(ctx, d.options)
	if err != nil {
		return nil, err
	}
	defer c.close()
	return d.samples(c, 0, concurrency)
}

// KeyExchanges is who has computed the exchanges with CTRU-Prime so far.
func (d *Demo) KeyExchanges() KeyExchanges { return keyExchanges(d.service.KeyExchanges()) }

// probe makes a request over each protocol.
func (d *Demo) probe(c *client, id tls.CurveID) (*Probe, error) {
	p := &Probe{Group: groups.Name(id), CodePoint: uint16(id)}
	for proto, answer := range map[string]*Answer{http1: &p.HTTP1, http2: &p.HTTP2} {
		o, err := c.do(loadgen.Task{Load: d.load(id, 0), Probe: proto})
		if err != nil {
			return nil, err
		}
		answer.Errors = o.Errors
		if o.Answer != nil {
			answer.Proto, answer.Status = o.Answer.Proto, o.Answer.Status
			if o.Answer.Body != greeting {
				answer.Errors = append(answer.Errors, fmt.Sprintf("the answer is %q, not the backend's", o.Answer.Body))
			}
		}
	}
	return p, nil
}

func (d *Demo) load(id tls.CurveID, requests int) loadgen.Load {
	return loadgen.Load{Addresses: []string{d.Address()}, ServerName: serverName, Certificate: d.cert.Certificate[0],
		Group: id, Requests: requests, Concurrency: d.options.Concurrency}
}

// warmUp is how long each group runs before it is measured.
const warmUp = 100 * time.Millisecond

// samples runs the rounds, of handshakes alone or with so many requests each.
func (d *Demo) samples(c *client, requests, concurrency int) ([][]comparison.Sample, error) {
	loads := make([]loadgen.Load, len(d.options.Groups))
	for i, id := range d.options.Groups {
		loads[i] = d.load(id, requests)
		loads[i].Concurrency = concurrency
		if _, err := d.sample(c, loads[i], min(warmUp, d.options.Duration)); err != nil {
			return nil, err
		}
	}
	samples := make([][]comparison.Sample, len(loads))
	err := comparison.Interleave(d.options.Rounds, len(loads), func(i int) error {
		s, err := d.sample(c, loads[i], d.options.Duration)
		if err == nil {
			samples[i] = append(samples[i], *s)
		}
		return err
	})
	return samples, err
}

// subjects are the groups; the base is X25519, else the first.
func subjects(ids []tls.CurveID) []comparison.Subject {
	base := max(slices.Index(ids, tls.X25519), 0)
	all := make([]comparison.Subject, len(ids))
	for i, id := range ids {
		all[i] = comparison.Subject{Name: groups.Name(id), Group: groups.Name(id), Base: i == base}
	}
	return all
}

// sample has the client make load and takes the server's processor time until the last
// connection is closed.
func (d *Demo) sample(c *client, load loadgen.Load, duration time.Duration) (*comparison.Sample, error) {
	before := d.service.Stats()
	start, err := machine.CPUTime()
	if err != nil {
		return nil, err
	}
	o, err := c.do(loadgen.Task{Load: load, Span: loadgen.Span{Duration: duration}})
	if err != nil {
		return nil, err
	}
	if err := d.quiet(c.ctx); err != nil {
		return nil, err
	}
	end, err := machine.CPUTime()
	if err != nil {
		return nil, err
	}
	after := d.service.Stats()
	s := &comparison.Sample{Result: o.Result, ServerCPU: end - start}
	if n := after.Handshakes[load.Group] - before.Handshakes[load.Group]; n != uint64(o.Completed) && o.Failed == 0 {
		s.Faults = append(s.Faults, fmt.Sprintf("the server counted %d handshakes with %s, the client %d", n, groups.Name(load.Group), o.Completed))
	}
	if n := after.Failed - before.Failed; n > 0 {
		s.Faults = append(s.Faults, fmt.Sprintf("%d handshakes failed on the server", n))
	}
	return s, nil
}

// quiet waits until the proxy has no connections.
func (d *Demo) quiet(ctx context.Context) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for d.service.Stats().Open > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
