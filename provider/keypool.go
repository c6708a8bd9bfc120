package provider

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// refillPause is how long a pool rests after its engine failed to make keys.
const refillPause = time.Second

// keyPool holds pre-generated key pairs of one parameter set. A key pair costs
// many times an encapsulation, and a group of them far less each than one
// alone, so the pool makes them in groups, in the background, and its groups
// grow while callers wait: nothing is timed.
//
// Each key is handed to exactly one caller. The pool starts at the first take,
// so that parameter sets nobody asks for cost nothing.
type keyPool struct {
	scheme *ctruprime.Scheme
	size   int
	serve  func(context.Context, []request)
	group  func() int // keys to ask for at once while callers wait

	start  sync.Once
	wake   chan struct{} // holds a token while there may be work
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed when the refill goroutine has ended

	mu      sync.Mutex
	closed  bool
	stock   [][]byte
	waiters []chan keyOrError // in order of arrival; each has room for one result
	filling []chan struct{}   // closed once there is nothing to do

	handedOut, generated, waits atomic.Uint64
}

type keyOrError struct {
	sk  []byte
	err error
}

func newKeyPool(s *ctruprime.Scheme, size int, serve func(context.Context, []request), group func() int) *keyPool {
	k := &keyPool{scheme: s, size: size, serve: serve, group: group, wake: make(chan struct{}, 1), done: make(chan struct{})}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	return k
}

// take returns a key from the stock, or waits for the next group.
func (k *keyPool) take(ctx context.Context) ([]byte, error) {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return nil, ErrClosed
	}
	k.start.Do(func() { go k.run() })
	if n := len(k.stock); n > 0 {
		sk := k.stock[n-1]
		k.stock[n-1], k.stock = nil, k.stock[:n-1]
		low := len(k.stock) < k.lowWater()
		k.mu.Unlock()
		if low {
			k.signal()
		}
		k.handedOut.Add(1)
		return sk, nil
	}
	w := make(chan keyOrError, 1)
	k.waiters = append(k.waiters, w)
	k.mu.Unlock()
	k.waits.Add(1)
	k.signal()
	select {
	case r := <-w:
		if r.err == nil {
			k.handedOut.Add(1)
		}
		return r.sk, r.err
	case <-ctx.Done():
		k.abandon(w)
		return nil, context.Cause(ctx)
	}
}

// fill waits until the stock is full, but for less than a group.
func (k *keyPool) fill(ctx context.Context) error {
	k.mu.Lock()
	if k.closed {
		k.mu.Unlock()
		return ErrClosed
	}
	k.start.Do(func() { go k.run() })
	full := make(chan struct{})
	k.filling = append(k.filling, full)
	k.mu.Unlock()
	k.signal()
	select {
	case <-full:
		return nil
	case <-k.ctx.Done():
		return ErrClosed
	case <-ctx.Done():
		k.mu.Lock()
		defer k.mu.Unlock()
		k.filling = slices.DeleteFunc(k.filling, func(o chan struct{}) bool { return o == full })
		return context.Cause(ctx)
	}
}

// abandon takes a caller that no longer waits off the list. A key that was
// delivered to it meanwhile was seen by nobody and goes back into the stock.
func (k *keyPool) abandon(w chan keyOrError) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, o := range k.waiters {
		if o == w {
			k.waiters = append(k.waiters[:i], k.waiters[i+1:]...)
			return
		}
	}
	if r := <-w; r.err == nil {
		k.keep(r.sk)
	}
}

// keep puts a key into the stock, or wipes it where there is no room. Locked.
func (k *keyPool) keep(sk []byte) {
	if k.closed || len(k.stock) >= k.size {
		clear(sk)
		return
	}
	k.stock = append(k.stock, sk)
}

// lowWater is the level below which the stock is refilled: when a whole group
// fits, or half of a pool smaller than two groups is gone.
func (k *keyPool) lowWater() int { return max(k.size-ctruprime.MaxKeyGroup, (k.size+1)/2) }

func (k *keyPool) signal() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// run makes keys while there is demand for them.
func (k *keyPool) run() {
	defer close(k.done)
	for {
		n := k.demand()
		if n == 0 {
			select {
			case <-k.wake:
				continue
			case <-k.ctx.Done():
				return
			}
		}
		if err := k.make(n); err != nil && k.ctx.Err() == nil {
			pause := time.NewTimer(refillPause)
			select {
			case <-pause.C:
			case <-k.ctx.Done():
				pause.Stop()
			}
		}
		if k.ctx.Err() != nil {
			return
		}
	}
}

// demand says how many keys to make next: one for each caller that waits, as
// many as the engine can make at once; else a group, where the stock is low. If it is
// not, who waits for that is told.
func (k *keyPool) demand() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.waiters); n > 0 {
		return min(n, k.group())
	}
	if len(k.stock) < k.lowWater() || len(k.stock) == 0 {
		return min(ctruprime.MaxKeyGroup, k.size-len(k.stock))
	}
	for _, full := range k.filling {
		close(full)
	}
	k.filling = nil
	return 0
}

// make generates n keys and delivers them, first to those who wait. Where the
// engine fails, those who wait get its error; nobody waits for a retry.
func (k *keyPool) make(n int) error {
	seeds := make([]byte, n*ctruprime.KeySeedSize)
	rand.Read(seeds)
	defer clear(seeds)
	batch := make([]request, n)
	for i := range batch {
		seed := seeds[i*ctruprime.KeySeedSize : (i+1)*ctruprime.KeySeedSize]
		batch[i] = request{op: opGenerateKey, scheme: k.scheme, own: seed, out: make([]byte, k.scheme.PrivateKeySize())}
	}
	k.serve(k.ctx, batch)

	k.mu.Lock()
	defer k.mu.Unlock()
	var failure error
	for i := range batch {
		r := &batch[i]
		if r.err != nil {
			failure = r.err
			clear(r.out)
			continue
		}
		k.generated.Add(1)
		if len(k.waiters) == 0 {
			k.keep(r.out)
			continue
		}
		k.deliver(keyOrError{sk: r.out})
	}
	if k.closed {
		failure = ErrClosed // the engine's error is that Close ended its context
	}
	if failure != nil {
		for range min(n, len(k.waiters)) {
			k.deliver(keyOrError{err: failure})
		}
	}
	return failure
}

// deliver gives a result to the first caller that waits. Locked.
func (k *keyPool) deliver(r keyOrError) {
	w := k.waiters[0]
	k.waiters[0], k.waiters = nil, k.waiters[1:]
	w <- r
}

// close ends the refill, fails those who wait and wipes the stock.
func (k *keyPool) close() {
	k.mu.Lock()
	k.closed = true
	k.start.Do(func() { close(k.done) }) // it never ran
	k.mu.Unlock()
	k.cancel()
	<-k.done

	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.waiters) > 0 {
		k.deliver(keyOrError{err: ErrClosed})
	}
	for _, sk := range k.stock {
		clear(sk)
	}
	k.stock = nil
}

func (k *keyPool) level() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.stock)
}
