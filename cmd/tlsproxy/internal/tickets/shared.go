package tickets

import (
	"context"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Store is where several proxies keep the keys that they share. It is called by one
// goroutine at a time.
type Store interface {
	// Put keeps value under name for a time, unless there is something already. It
	// returns what is there then.
	Put(ctx context.Context, name string, value []byte, keep time.Duration) ([]byte, error)
	// Get returns what is under name, nil if that is nothing.
	Get(ctx context.Context, name string) ([]byte, error)
}

// shared takes the random keys of periods from a Store, and puts those there that
// nobody has yet. What is in the Store is sealed under the secrets. Keys are fetched
// a period before they seal. As long as one is missing the newest before it seals;
// if there is none, one of the process's own does.
type shared struct {
	period, lifetime time.Duration
	store            Store
	wraps            []cipher.AEAD // of the secrets: the first seals, all open
	own              key

	mu    sync.Mutex
	known map[int64]key
}

// How often the store is asked for what is missing, and for how long at most.
const (
	askEvery  = 10 * time.Second
	askWithin = 5 * time.Second
)

func newShared(o Options, store Store) (*shared, error) {
	if len(o.Secrets) == 0 {
		return nil, errors.New("tickets: a store needs a secret, under which keys are sealed in it")
	}
	s := &shared{period: o.Period, lifetime: o.Lifetime, store: store, known: map[int64]key{}}
	for _, secret := range o.Secrets {
		wrap, err := wrapOf(secret)
		if err != nil {
			return nil, err
		}
		s.wraps = append(s.wraps, wrap)
	}
	s.own = randomKey()
	return s, nil
}

func wrapOf(secret []byte) (cipher.AEAD, error) {
	own, err := hkdf.Key(sha256.New, secret, nil, "tlsproxy tickets store", keySize)
	if err != nil {
		return nil, err
	}
	return sealing(own)
}

func randomKey() (k key) {
	rand.Read(k.id[:])
	rand.Read(k.secret[:])
	return k
}

// periods returns the oldest and the present one.
func (s *shared) periods(now time.Time) (oldest, present int64) {
	present = now.UnixNano() / int64(s.period)
	return present - int64((s.lifetime+s.period-1)/s.period), present
}

// fetch asks the store for the keys that are missing, and makes those of the present
// and the next period if nobody has.
func (s *shared) fetch(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	oldest, present := s.periods(now)
	var errs []error
	for period := present + 1; period >= oldest; period-- {
		if s.has(period) {
			continue
		}
		k, ok, err := s.get(ctx, period, period >= present)
		if err != nil {
			errs = append(errs, err)
		}
		if ok {
			s.keep(period, k, oldest)
		}
	}
	return errors.Join(errs...)
}

func (s *shared) has(period int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.known[period]
	return ok
}

// keep takes in a key, and forgets those whose time is over.
func (s *shared) keep(period int64, k key, oldest int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[period] = k
	for p := range s.known {
		if p < oldest {
			delete(s.known, p)
		}
	}
}

// get asks for one key; it is not ok if the store has none and none is to be made.
func (s *shared) get(ctx context.Context, period int64, create bool) (k key, ok bool, err error) {
	name := fmt.Sprintf("%d:%d", int64(s.period/time.Second), period)
	var sealed []byte
	if create {
		fresh := randomKey()
		plain := append(fresh.id[:], fresh.secret[:]...)
		defer clear(plain)
		sealed, err = s.store.Put(ctx, name, s.wraps[0].Seal(nil, nil, plain, []byte(name)), s.lifetime+3*s.period)
	} else {
		sealed, err = s.store.Get(ctx, name)
	}
	if err != nil || sealed == nil {
		return k, false, err
	}
	for _, wrap := range s.wraps {
		plain, err := wrap.Open(nil, nil, sealed, []byte(name))
		if err == nil && len(plain) == idSize+keySize {
			copy(k.id[:], plain)
			copy(k.secret[:], plain[idSize:])
			clear(plain)
			return k, true, nil
		}
	}
	return k, false, fmt.Errorf("tickets: the key of period %d in the store was not sealed under one of our secrets; give all proxies the same", period)
}

// ring implements source with what is known now.
func (s *shared) ring(now time.Time, _ *ring) (*ring, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest, present := s.periods(now)
	r := &ring{until: time.Unix(0, (present+1)*int64(s.period)), present: -1}
	for period := present + 1; period >= oldest; period-- {
		k, ok := s.known[period]
		if !ok {
			continue
		}
		if period <= present && r.present < 0 {
			r.present = len(r.keys)
		}
		r.keys = append(r.keys, k)
	}
	r.keys = append(r.keys, s.own)
	if r.present < 0 {
		r.present = len(r.keys) - 1
	}
	return r, nil
}

// Share makes r use the keys of store, as o says, until ctx is done. It returns
// when the store was asked for the first time, whether it answered or not, and then
// asks for what is missing in a goroutine of its own. failed is called when the
// store begins to fail, with the error, and with nil when it does not any more.
func (r *Keys) Share(ctx context.Context, o Options, store Store, failed func(error)) (stop func(), err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s, err := newShared(o, store)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{keys: r, shared: s, failed: failed}
	f.ask(ctx)
	var asking sync.WaitGroup
	asking.Go(func() { f.run(ctx) })
	return func() {
		cancel()
		asking.Wait()
	}, nil
}

// follower keeps Keys up to date with a store.
type follower struct {
	keys   *Keys
	shared *shared
	failed func(error)
	fails  bool
}

func (f *follower) run(ctx context.Context) {
	tick := time.NewTicker(min(askEvery, f.shared.period/4))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.ask(ctx)
		}
	}
}

// ask fetches what is missing and has the Keys use it.
func (f *follower) ask(ctx context.Context) {
	err := f.shared.fetch(ctx, f.keys.now())
	if ctx.Err() != nil {
		return
	}
	if (err != nil) != f.fails {
		f.fails = err != nil
		f.failed(err)
	}
	f.keys.mu.Lock()
	defer f.keys.mu.Unlock()
	f.keys.follow(f.shared) // it makes no errors
}
