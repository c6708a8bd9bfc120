package tickets

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure Keys.
type Options struct {
	// Period is how long one key seals; at least a second.
	Period time.Duration
	// Lifetime is how long a ticket opens at least, rounded up to whole Periods. It
	// opens for at most one Period more.
	Lifetime time.Duration
	// Secrets, of at least MinSecretSize bytes each, are what all keys are derived
	// from: the first seals, all open. None: keys are random and nobody else's.
	Secrets [][]byte
}

// Bounds of Options.
const (
	MinSecretSize = 32 // bytes
	MaxSecrets    = 16
	maxPeriods    = 1000 // within a Lifetime
)

func (o *Options) check() error {
	switch {
	case o.Period < time.Second:
		return errors.New("tickets: a period of less than a second")
	case o.Lifetime < 0 || o.Lifetime/o.Period > maxPeriods:
		return fmt.Errorf("tickets: a lifetime of %v is not from 0 to %d periods of %v", o.Lifetime, maxPeriods, o.Period)
	case len(o.Secrets) > MaxSecrets:
		return fmt.Errorf("tickets: %d secrets; the most is %d", len(o.Secrets), MaxSecrets)
	}
	for _, s := range o.Secrets {
		if len(s) < MinSecretSize {
			return fmt.Errorf("tickets: a secret of %d bytes; the least is %d", len(s), MinSecretSize)
		}
	}
	return nil
}

// Keys seal and open tickets, with other keys as time passes. They can be used
// concurrently.
type Keys struct {
	current atomic.Pointer[ring]
	mu      sync.Mutex // held while a ring is replaced
	source  source
	now     func() time.Time
}

// ring holds the keys of a time.
type ring struct {
	keys    []key
	present int // of keys: the one that seals
	until   time.Time
}

// source makes the ring for a time; before is that which it replaces, nil at
// first.
type source interface {
	ring(now time.Time, before *ring) (*ring, error)
}

// New returns Keys as o says.
func New(o Options) (*Keys, error) {
	k := &Keys{now: time.Now}
	if err := k.Set(o); err != nil {
		return nil, err
	}
	return k, nil
}

// Set makes k go by other options. What was sealed before opens if the new options
// lead to the same keys.
func (r *Keys) Set(o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if local, ok := r.source.(*local); ok && len(o.Secrets) == 0 && local.period == o.Period && local.lifetime == o.Lifetime {
		return nil // it goes on with the keys that it has
	}
	s := source(&local{period: o.Period, lifetime: o.Lifetime})
	if len(o.Secrets) > 0 {
		s = newDerived(o)
	}
	return r.follow(s)
}

// follow makes r take its keys from s; r.mu is held.
func (r *Keys) follow(s source) error {
	first, err := s.ring(r.now(), nil)
	if err != nil {
		return err
	}
	r.source = s
	r.current.Store(first)
	return nil
}

// ring returns the keys of the present.
func (r *Keys) ring() (*ring, error) {
	current := r.current.Load()
	if r.now().Before(current.until) {
		return current, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now, current := r.now(), r.current.Load()
	if now.Before(current.until) {
		return current, nil
	}
	next, err := r.source.ring(now, current)
	if err != nil {
		return nil, err
	}
	r.current.Store(next)
	return next, nil
}

// local makes random keys. Those whose time is over can't be had again by anyone.
type local struct{ period, lifetime time.Duration }

func (l *local) ring(now time.Time, before *ring) (*ring, error) {
	next := &ring{keys: []key{randomKey()}, until: now.Add(l.period)}
	if before == nil || now.Sub(before.until) > l.lifetime {
		return next, nil
	}
	held := int((l.lifetime + l.period - 1) / l.period)
	next.keys = append(next.keys, before.keys[:min(held, len(before.keys))]...)
	return next, nil
}

// derived makes keys of secrets and of the number of the period, counted from
// 1970: proxies with the same secrets, and clocks that differ by less than a
// period, have the same keys.
type derived struct {
	period, lifetime time.Duration
	secrets          [][]byte // pseudorandom keys of HKDF
}

func newDerived(o Options) *derived {
	d := &derived{period: o.Period, lifetime: o.Lifetime}
	for _, secret := range o.Secrets {
		prk, err := hkdf.Extract(sha256.New, secret, []byte("tlsproxy tickets"))
		if err != nil {
			panic("tickets: " + err.Error()) // SHA-256 is approved, and the secret is long enough
		}
		d.secrets = append(d.secrets, prk)
	}
	return d
}

func (d *derived) ring(now time.Time, _ *ring) (*ring, error) {
	present := now.UnixNano() / int64(d.period)
	oldest := present - int64((d.lifetime+d.period-1)/d.period)
	r := &ring{until: time.Unix(0, (present+1)*int64(d.period))}
	for i, secret := range d.secrets {
		for period := present + 1; period >= oldest; period-- { // that to come, for a clock that is ahead
			k, err := derive(secret, period)
			if err != nil {
				return nil, err
			}
			if i == 0 && period == present {
				r.present = len(r.keys)
			}
			r.keys = append(r.keys, k)
		}
	}
	return r, nil
}

func derive(secret []byte, period int64) (k key, err error) {
	info := binary.BigEndian.AppendUint64([]byte("period"), uint64(period))
	out, err := hkdf.Expand(sha256.New, secret, string(info), idSize+keySize)
	if err != nil {
		return key{}, err
	}
	defer clear(out)
	copy(k.id[:], out)
	copy(k.secret[:], out[idSize:])
	return k, nil
}
