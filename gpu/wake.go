package gpu

import (
	"sync"
	"sync/atomic"
)

// The callers of a batch do not wait for one channel together. Each who wakes would take its lock, twice where it waits for a context as well; with
// as many processors as callers wake on, that is a sixth of what a row costs them. So each caller has a bed of its own, where it is woken by name; and
// since it takes a while to wake a thousand, those who are awake help to wake the others.

// wakeGroup is how many rows' callers one goroutine takes on to wake at a time.
const wakeGroup = 8

// A bed is where the caller of a row sleeps, while a batch has the buffer whose row that is. It holds the sleeper, or the morning of the batch when that is
// over, or what an earlier batch has left, which stands for nothing.
type bed struct {
	held atomic.Pointer[sleeper]
	_    [56]byte // a cache line each
}

// A sleeper is what wakes a caller: a token for each time that it was found in its bed. One without an alarm is a batch's morning.
type sleeper struct{ alarm chan struct{} }

var sleepers = sync.Pool{New: func() any { return &sleeper{make(chan struct{}, 1)} }}

// sleep returns true when the morning has come, or false when ended is closed before. One caller may sleep in a bed at a time.
func (b *bed) sleep(morning *sleeper, ended <-chan struct{}) bool {
	s := sleepers.Get().(*sleeper)
	defer sleepers.Put(s)
	if left := b.held.Load(); left == morning || !b.held.CompareAndSwap(left, s) {
		return true
	}
	select {
	case <-s.alarm:
		return true
	case <-ended:
		if !b.held.CompareAndSwap(s, nil) {
			<-s.alarm // is on its way, and whoever has the sleeper next must not find it
		}
		return false
	}
}

// wake wakes the callers of a batch that is over, together with all others who do. It returns when each of them has been taken on by somebody. Who calls it
// holds the batch: it has rows, or has not counted the callers in.
func (b *batch) wake() {
	for int(b.woken.Load())*wakeGroup < b.size {
		first := int(b.woken.Add(1)-1) * wakeGroup
		for i := first; i < min(first+wakeGroup, b.size); i++ {
			if s := b.buffer.beds[i].held.Swap(b.morning); s != nil && s.alarm != nil {
				s.alarm <- struct{}{}
			}
		}
	}
}
