package provider

import (
	"context"
	"time"
)

// Timing says where the time of one call went that was meant for a GPU. It is zero for
// a call that the CPU carried out at once.
type Timing struct {
	// Queue is the time from the call until its batch began to run. If no batch
	// carried it out in the end, it is the time that was spent on trying, after which
	// the CPU did.
	Queue time.Duration
	// Batch is how long the batch then took, from pinned memory to pinned memory: 0
	// for a call that no batch carried out.
	Batch time.Duration

	called time.Time
}

type timingKey struct{}

// timed is a context with room for the Timing of a call, in one piece of memory.
type timed struct {
	context.Context
	timing Timing
}

func (t *timed) Value(key any) any {
	if key == (timingKey{}) {
		return &t.timing
	}
	return t.Context.Value(key)
}

// WithTiming returns a context for one call of a Provider, such as
// [Provider.ServerExchange], and where its Timing is once the call has returned. A call
// without such a context measures nothing and allocates nothing for it. Calls that draw
// on the key pool and batches of several operations have no Timing.
func WithTiming(ctx context.Context) (context.Context, *Timing) {
	t := &timed{Context: ctx}
	return t, &t.timing
}

// timingOf returns where the caller wants the Timing; nil if it does not.
func timingOf(ctx context.Context) *Timing {
	t, _ := ctx.Value(timingKey{}).(*Timing)
	return t
}

// begin notes the call. Like the other methods it does nothing for nil.
func (t *Timing) begin() {
	if t != nil {
		*t = Timing{called: time.Now()}
	}
}

// ran notes the batch that has carried the call out.
func (t *Timing) ran(started time.Time, took time.Duration) {
	if t != nil {
		t.Queue, t.Batch = started.Sub(t.called), took
	}
}

// leave notes that the call is left to the CPU.
func (t *Timing) leave() {
	if t != nil {
		t.Queue = time.Since(t.called)
	}
}
