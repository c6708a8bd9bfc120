package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"time"
)

// How long to wait before accepting again after an error that passes: twice as
// long each time in a row.
const (
	firstAcceptDelay = 5 * time.Millisecond
	lastAcceptDelay  = time.Second
)

// accept takes connections from ln until it is closed or fails for good.
func (s *Server) accept(ln net.Listener) error {
	delay := firstAcceptDelay
	for {
		raw, err := ln.Accept()
		switch {
		case err == nil:
			delay = firstAcceptDelay
			s.admit(raw)
		case s.isDraining():
			return ErrClosed
		case passes(err):
			s.log.Error("accepting failed; trying again", "listener", ln.Addr().String(), "err", err, "in", delay)
			select {
			case <-time.After(delay):
			case <-s.base.Done():
			}
			delay = min(2*delay, lastAcceptDelay)
		default:
			return fmt.Errorf("proxy: accepting on %s: %w", ln.Addr(), err)
		}
	}
}

// passes reports whether an error of Accept says nothing about the listener:
// the process or the system is short of something, or one client was quick to
// go away.
func passes(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

func (s *Server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// admit starts a connection's handshake, or sheds the connection if a limit is
// reached: new ones are turned away rather than all made slow.
func (s *Server) admit(raw net.Conn) {
	c := newConn(s, raw)
	limit, value := s.enter(c)
	if limit == "" {
		go s.handshake(c)
		return
	}
	raw.Close()
	s.noteShed(raw.RemoteAddr(), limit, value)
}

// noteShed tells of a connection that a limit has cost.
func (s *Server) noteShed(remote net.Addr, limit string, value int) {
	s.observer.ObserveShed(limit)
	s.limiters.shed.Log(slog.LevelWarn, "connection shed", func() []slog.Attr {
		return []slog.Attr{slog.String("remote", remote.String()), slog.String("limit", limit), slog.Int("value", value)}
	})
}

// enter takes c into the books, or names the limit that is reached.
func (s *Server) enter(c *conn) (limit string, value int) {
	limits := &c.live.limits
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		return "draining", 0
	case len(s.conns) >= limits.Connections:
		s.stats.Shed++
		return "limits.connections", limits.Connections
	case s.handshaking >= limits.Handshakes:
		s.stats.Shed++
		return "limits.handshakes", limits.Handshakes
	case s.sources[c.source] >= limits.HandshakesPerSource:
		s.stats.Shed++
		return "limits.handshakes_per_source", limits.HandshakesPerSource
	}
	s.conns[c] = struct{}{}
	s.stats.Accepted++
	c.number = s.stats.Accepted
	s.handshaking++
	s.sources[c.source]++
	s.working.Add(1) // before Shutdown can wait for it: draining is false
	return "", 0
}

// forget takes a closed connection off the books.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.noteProgress()
}
