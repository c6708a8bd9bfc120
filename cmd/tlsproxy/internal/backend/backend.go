package backend

import (
	"context"
	"hash/fnv"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// maxBackoff bounds by how much the time of an ejection grows while a backend
// stays dead: it doubles with each failed try up to this many times the first.
const maxBackoff = 16

// backend is one server and what its latest requests say about it.
type backend struct {
	url     *url.URL // as it was configured
	target  *url.URL // of requests: http or https
	network string   // to connect to: tcp or unix
	address string   // host:port, or a socket's path
	name    string   // for the log: the URL's host, and its address where that was looked up
	seed    uint64   // stands for the address in hashes

	log        *slog.Logger
	ejectAfter int
	ejectFor   time.Duration

	dialer   *dialer
	main     *http.Transport // nil for tcp and tls backends
	upgrades *http.Transport // for requests that ask to switch protocols; nil: none can

	underway atomic.Int64 // requests and connections that it serves
	gone     atomic.Bool  // its name does not lead to it any more
	stop     context.CancelFunc

	mu       sync.Mutex
	failures int           // in a row
	ejected  time.Time     // until then; zero if it is not ejected
	backoff  time.Duration // of the latest ejection
	trying   bool          // a request is finding out whether it is back
	checks   int           // health checks in a row that contradict unfit
	unfit    bool          // by health checks
	served   uint64        // in all
	faults   uint64        // in all
	retried  uint64        // in all
}

// newBackend returns the backend behind u. The address is where its host was
// found, "" to look it up for each connection.
func newBackend(o *Options, u *url.URL, address string) *backend {
	b := &backend{url: u, target: u, network: "tcp", address: address, name: u.Host, log: o.Logger, ejectAfter: o.EjectAfter, ejectFor: o.EjectFor, stop: func() {}}
	switch {
	case u.Host == "": // http+unix or unix
		b.target, b.network, b.address, b.name = &url.URL{Scheme: "http", Host: "localhost"}, "unix", u.Path, u.Path
	case address == "":
		b.address = hostPort(u)
	default:
		b.name = u.Host + " at " + address
	}
	hash := fnv.New64a()
	hash.Write([]byte(b.address + b.target.Path))
	b.seed = hash.Sum64()
	b.dialer = newDialer(o, b)
	b.main, b.upgrades = newTransports(o, b.dialer, u)
	return b
}

// hostPort is where a URL leads.
func hostPort(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	return u.Host + map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
}

// admit reports whether the backend takes part now. After an ejection the
// first caller is let in and the others are not, until that one has called
// succeeded, failed or undecided.
func (b *backend) admit(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unfit {
		return false
	}
	if b.ejected.IsZero() {
		return true
	}
	if now.Before(b.ejected) || b.trying {
		return false
	}
	b.trying = true
	return true
}

// fit reports what health checks say of the backend.
func (b *backend) fit() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.unfit
}

// enter counts a request or connection in, until leave.
func (b *backend) enter() { b.underway.Add(1) }

// leave lets connections to a backend that is gone end with their requests.
func (b *backend) leave() {
	if b.underway.Add(-1) == 0 && b.gone.Load() {
		b.closeIdle()
	}
}

// retire ends a backend's checks, and its connections as they become idle.
func (b *backend) retire() {
	b.gone.Store(true)
	b.stop()
	b.closeIdle()
}

func (b *backend) closeIdle() {
	for _, t := range []*http.Transport{b.main, b.upgrades} {
		if t != nil {
			t.CloseIdleConnections()
		}
	}
}

// succeeded notes that the backend answered.
func (b *backend) succeeded() {
	b.mu.Lock()
	back := !b.ejected.IsZero()
	b.failures, b.ejected, b.backoff, b.trying = 0, time.Time{}, 0, false
	b.served++
	b.mu.Unlock()
	if back {
		b.log.Info("backend is back", "backend", b.name)
	}
}

// retry notes that another backend failed what this one is tried with.
func (b *backend) retry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.retried++
}

// undecided notes that a request ended without telling anything about the
// backend: its client went away.
func (b *backend) undecided() {
	b.mu.Lock()
	b.trying = false
	b.mu.Unlock()
}

// failed notes that the backend could not be reached or gave no answer.
func (b *backend) failed(err error) {
	b.mu.Lock()
	b.failures++
	b.faults++
	eject := b.failures >= b.ejectAfter
	if eject {
		b.backoff = min(max(2*b.backoff, b.ejectFor), maxBackoff*b.ejectFor)
		b.ejected = time.Now().Add(b.backoff)
	}
	b.trying = false
	failures, backoff := b.failures, b.backoff
	b.mu.Unlock()
	if eject {
		b.log.Warn("backend ejected", "backend", b.name, "failures", failures, "for", backoff, "err", err)
	}
}
