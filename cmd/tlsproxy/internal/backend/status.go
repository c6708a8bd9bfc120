package backend

import (
	"time"

	"github.com/ctrutls/ctrutls/internal/histogram"
)

// Status is a snapshot of what a Pool knows of one backend.
type Status struct {
	URL      string    `json:"url"`
	Address  string    `json:"address"` // that is connected to: with a host name where that is looked up for each connection; or a socket's path
	Healthy  bool      `json:"healthy"` // by health checks; true without any
	Ejected  time.Time `json:"ejected_until,omitzero"`
	Underway int64     `json:"under_way"` // requests and connections
	Served   uint64    `json:"served"`    // requests that were answered and connections that were made
	Retries  uint64    `json:"retries"`   // of them all, those that another backend had failed first
	Failures uint64    `json:"failures"`  // no connection, no answer, or one that broke off for too long
}

// Up reports whether the backend takes part.
func (s Status) Up() bool { return s.Healthy && s.Ejected.IsZero() }

// Status describes the backends of the pool as they stand.
func (p *Pool) Status() []Status {
	set := *p.set.Load()
	all := make([]Status, len(set))
	for i, b := range set {
		all[i] = b.status()
	}
	return all
}

// Latency is how long requests took from when a backend was chosen to the header of
// its answer, in nanoseconds, of those that were answered.
func (p *Pool) Latency() *histogram.Snapshot { return p.latency.Snapshot() }

func (b *backend) status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Status{URL: b.url.String(), Address: b.address, Healthy: !b.unfit, Ejected: b.ejected, Underway: b.underway.Load(), Served: b.served, Retries: b.retried, Failures: b.faults}
}
