package proxy

import (
	"context"
	"net"
)

// Leave is for when another process has taken the listeners over: the time before
// Shutdown, in which nothing is done that a client could take for a failure. It
// stops accepting, without turning away what was accepted; lets each connection
// have its next answer, which asks the client to connect anew; and returns when no
// connection is left, or ctx is done. A client that finds its connection closed
// although it was about to send a request cannot know what became of that: so
// connections that are idle are left as they are.
func (s *Server) Leave(ctx context.Context) {
	s.leaving.Store(true)
	s.mu.Lock()
	var listeners []net.Listener
	for ln := range s.listeners {
		listeners = append(listeners, ln)
	}
	s.mu.Unlock()
	for _, ln := range listeners {
		ln.Close()
	}
	s.accepting.Wait()
	s.mu.Lock()
	s.left = true
	s.noteProgress()
	s.mu.Unlock()
	select {
	case <-s.empty:
	case <-ctx.Done():
	}
}
