package gpu

import (
	"sync"
	"sync/atomic"
)

// A room tells whoever found every batch full when to try again.
type room struct {
	awaited atomic.Bool
	mu      sync.Mutex
	made    chan struct{} // nil unless awaited
}

// Room returns a channel that is closed when Reserve, after ErrBusy, is worth another try. Ask for it before that try, lest what happens between the
// two goes unseen.
func (e *Engine) Room() <-chan struct{} {
	r := &e.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made == nil {
		r.made = make(chan struct{})
		r.awaited.Store(true)
	}
	return r.made
}

// changed says that Reserve may have another answer now.
func (r *room) changed() {
	if !r.awaited.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.made != nil {
		close(r.made)
		r.made = nil
		r.awaited.Store(false)
	}
}
