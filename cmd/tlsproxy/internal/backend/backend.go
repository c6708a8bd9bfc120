package backend

import (
	"log/slog"
	"net/url"
	"sync"
	"time"
)

// maxBackoff bounds by how much the time of an ejection grows while a backend
// stays dead: it doubles with each failed try up to this many times the first.
const maxBackoff = 16

// backend is one server and what its latest requests say about it.
type backend struct {
	url        *url.URL
	log        *slog.Logger
	ejectAfter int
	ejectFor   time.Duration

	mu       sync.Mutex
	failures int           // in a row
	ejected  time.Time     // until then; zero if it is not ejected
	backoff  time.Duration // of the latest ejection
	trying   bool          // a request is finding out whether it is back
}

// admit reports whether the backend takes part now. After an ejection the
// first caller is let in and the others are not, until that one has called
// succeeded, failed or undecided.
func (b *backend) admit(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ejected.IsZero() {
		return true
	}
	if now.Before(b.ejected) || b.trying {
		return false
	}
	b.trying = true
	return true
}

// succeeded notes that the backend answered.
func (b *backend) succeeded() {
	b.mu.Lock()
	back := !b.ejected.IsZero()
	b.failures, b.ejected, b.backoff, b.trying = 0, time.Time{}, 0, false
	b.mu.Unlock()
	if back {
		b.log.Info("backend is back", "backend", b.url.Host)
	}
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
	eject := b.failures >= b.ejectAfter
	if eject {
		b.backoff = min(max(2*b.backoff, b.ejectFor), maxBackoff*b.ejectFor)
		b.ejected = time.Now().Add(b.backoff)
	}
	b.trying = false
	failures, backoff := b.failures, b.backoff
	b.mu.Unlock()
	if eject {
		b.log.Warn("backend ejected", "backend", b.url.Host, "failures", failures, "for", backoff, "err", err)
	}
}
