package loadgen

import (
	"crypto/tls"
	"sync/atomic"
)

// session is a tls.ClientSessionCache of one session, the first that it is given. It
// is offered again and again: servers that take a ticket only once refuse it, and the
// handshake then counts as failed.
type session struct {
	state atomic.Pointer[tls.ClientSessionState]
	got   chan struct{} // closed once there is one
}

func newSession() *session { return &session{got: make(chan struct{})} }

// Get returns the session, if there is one.
func (s *session) Get(string) (*tls.ClientSessionState, bool) {
	state := s.state.Load()
	return state, state != nil
}

// Put keeps the first session.
func (s *session) Put(_ string, state *tls.ClientSessionState) {
	if state != nil && s.state.CompareAndSwap(nil, state) {
		close(s.got)
	}
}
