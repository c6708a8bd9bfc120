// Package calls makes calls from many goroutines at once, without a pause, as a busy server's handshakes do, and tells how many there were and how
// long they took.
//
// It knows functions and time only, not what is called.
package calls

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Result is what came of a Run.
type Result struct {
	Calls    int           // that succeeded
	Elapsed  time.Duration // until the last of them had ended
	P50, P99 time.Duration // of a call
}

// sampleEvery is how many calls of a caller there are to one whose latency is taken: the clock costs, too.
const sampleEvery = 8

// MaxCallers bounds the goroutines of a Run.
const MaxCallers = 1 << 16

// Run has so many callers call for a duration; what is under way at its end is finished. Each caller has a context of its own that ends
// with ctx, as a handshake's can. An error ends all of it, and is Run's.
func Run(ctx context.Context, callers int, d time.Duration, call func(context.Context) error) (Result, error) {
	if callers < 1 || callers > MaxCallers {
		return Result{}, fmt.Errorf("calls: %d callers; possible are 1 to %d", callers, MaxCallers)
	}
	r := run{call: call, failed: make(chan struct{}, callers)}
	start := time.Now()
	for range callers {
		r.callers.Go(func() { r.caller(ctx) })
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.failed:
	case <-ctx.Done():
	}
	r.stop.Store(true)
	r.callers.Wait()
	result := Result{Calls: r.made, Elapsed: time.Since(start)}
	if err := context.Cause(ctx); err != nil {
		return result, err
	}
	if r.err != nil {
		return result, r.err
	}
	slices.Sort(r.latencies)
	result.P50, result.P99 = r.latencies[len(r.latencies)/2], r.latencies[len(r.latencies)*99/100]
	return result, nil
}

// A run is a Run under way.
type run struct {
	call    func(context.Context) error
	stop    atomic.Bool
	failed  chan struct{} // has room for all callers
	callers sync.WaitGroup

	mu        sync.Mutex
	made      int
	latencies []time.Duration // of a sample of the calls, each caller's first one among them
	err       error
}

// caller calls until it is to stop, once at least.
func (r *run) caller(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var own []time.Duration
	var err error
	made := 0
	for ; made == 0 || !r.stop.Load(); made++ {
		var began time.Time
		sampled := made%sampleEvery == 0
		if sampled {
			began = time.Now()
		}
		if err = r.call(ctx); err != nil {
			r.failed <- struct{}{}
			break
		}
		if sampled {
			own = append(own, time.Since(began))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made += made
	r.latencies = append(r.latencies, own...)
	r.err = errors.Join(r.err, err)
}
