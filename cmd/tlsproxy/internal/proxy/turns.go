package proxy

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/internal/average"
)

// turns bound how many handshakes are computed at once. What a handshake computes takes
// a processor for long, against what a request does. If all that come were let loose on
// the processors, requests over connections that are there would wait behind thousands of
// them. So a handshake has its turn from when its ClientHello is there until its client
// has to say something; others wait, each for so long at most, in the order in which they
// came.
//
// Whoever gets a turn goes behind all goroutines that can run, before it begins. Go lets
// a goroutine run on until it waits for something: without stepping back each handshake
// would find a turn free, and those that come would wait in the runtime's queues, where
// requests do, instead of here.
type turns struct {
	most int
	wait time.Duration
	held average.Average // nanoseconds that a handshake has its turn for

	mu      sync.Mutex
	taken   int // can be more than most by those that go on
	waiting []*waiter
}

// waiter is a handshake that waits for its turn.
type waiter struct {
	turn chan struct{} // closed when it has come
	gone bool          // it was not waited for
}

// turnsPerProcessor keep each processor busy while some of those whose turn it is are
// held up, and are few enough for requests to come in between.
const turnsPerProcessor = 8

// newTurns are those of a configuration and of so many GPUs that are in use.
func newTurns(c *config.Config, gpus int) *turns {
	t := &turns{most: c.Limits.KeyExchanges, wait: time.Duration(c.Limits.KeyExchangeWait)}
	if t.most == 0 {
		g := c.Provider.GPU // those that wait for a batch keep no processor busy
		t.most = turnsPerProcessor*runtime.GOMAXPROCS(0) + gpus*g.Workers*g.Capacity
	}
	return t
}

// reached is the limit that a handshake without a turn has met.
func (t *turns) reached() excess { return excess{"limits.key_exchanges", t.most} }

// crowded reports whether a handshake that came now would wait in vain, by how many
// wait already and how long a turn takes.
func (t *turns) crowded() bool {
	held := t.held.Value()
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(t.waiting)
	return n > 0 && float64(n+1)*held > float64(t.wait)*float64(t.most)
}

// length is how many wait.
func (t *turns) length() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.waiting)
}

// take waits for a turn, which begins then, or reports that none came in time.
func (t *turns) take(ctx context.Context) bool {
	defer runtime.Gosched()
	t.mu.Lock()
	if t.taken < t.most && len(t.waiting) == 0 {
		t.taken++
		t.mu.Unlock()
		return true
	}
	w := &waiter{turn: make(chan struct{})}
	t.waiting = append(t.waiting, w)
	t.mu.Unlock()
	patience := time.NewTimer(t.wait)
	defer patience.Stop()
	select {
	case <-w.turn:
		return true
	case <-patience.C:
	case <-ctx.Done():
	}
	return t.leave(w)
}

// leave ends a waiting; it reports whether the turn has come after all.
func (t *turns) leave(w *waiter) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case <-w.turn:
		return true
	default:
	}
	w.gone = true
	t.tidy()
	return false
}

// tidy takes those off the front of the queue who are gone; t.mu is held. Patience ends
// in the order in which it began, so that next to none are left further behind.
func (t *turns) tidy() {
	n := 0
	for n < len(t.waiting) && t.waiting[n].gone {
		n++
	}
	t.waiting = t.waiting[n:]
}

// goOn is take for a handshake that had a turn before. It is not kept waiting, for then
// that turn would have been for nothing, but others are.
func (t *turns) goOn() {
	t.mu.Lock()
	t.taken++
	t.mu.Unlock()
	runtime.Gosched()
}

// end ends a turn, and begins others.
func (t *turns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken--
	for t.tidy(); t.taken < t.most && len(t.waiting) > 0; t.tidy() {
		close(t.waiting[0].turn)
		t.waiting = t.waiting[1:]
		t.taken++
	}
}

// turn is a handshake's part in turns; its own goroutine uses it.
type turn struct {
	of    *turns
	taken bool
	on    bool // and it is not the client's
	began time.Time
	spent time.Duration
}

// take is for a client whose ClientHello is there.
func (t *turn) take(ctx context.Context) bool {
	t.taken = t.of.take(ctx)
	t.on, t.began = t.taken, time.Now()
	return t.taken
}

// pause gives the turn back while the client is waited for.
func (t *turn) pause() {
	if t.on {
		t.on = false
		t.spent += time.Since(t.began)
		t.of.end()
	}
}

// resume takes it again, once the client has said more.
func (t *turn) resume() {
	if t.taken && !t.on {
		t.on, t.began = true, time.Now()
		t.of.goOn()
	}
}

// end is for the end of the handshake.
func (t *turn) end() {
	t.pause()
	if t.taken {
		t.taken = false
		t.of.held.Add(float64(t.spent))
	}
}
