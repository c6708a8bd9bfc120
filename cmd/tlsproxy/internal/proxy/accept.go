package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxyprotocol"
)

// How long to wait before accepting again after an error that passes: twice as
// long each time in a row.
const (
	firstAcceptDelay = 5 * time.Millisecond
	lastAcceptDelay  = time.Second
)

// accept takes connections from ln until it is closed or fails for good.
func (s *Server) accept(ln net.Listener, trust *proxyprotocol.Trust) error {
	delay := firstAcceptDelay
	for {
		raw, err := ln.Accept()
		switch {
		case err == nil:
			delay = firstAcceptDelay
			s.admit(raw, trust)
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
func (s *Server) admit(raw net.Conn, trust *proxyprotocol.Trust) {
	var c *conn
	if trust == nil {
		c = newConn(s, raw)
	} else if c = newFrontConn(s, raw, trust); c == nil {
		raw.Close()
		s.noteRefusedFront(raw.RemoteAddr(), errUntrusted.Error())
		return
	}
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
	}
	if c.trust == nil {
		if limit, value := s.takeSource(c); limit != "" {
			return limit, value
		}
	}
	s.conns[c] = struct{}{}
	s.handshaking++
	s.working.Add(1) // before Shutdown can wait for it: draining is false
	return "", 0
}

// enterSource is the part of enter that has to wait for a PROXY header.
func (s *Server) enterSource(c *conn) (limit string, value int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takeSource(c)
}

// takeSource takes c into its source's books, or names the limit that is
// reached; s.mu is held.
func (s *Server) takeSource(c *conn) (limit string, value int) {
	if most := c.live.limits.HandshakesPerSource; s.sources[c.source] >= most {
		s.stats.Shed++
		return "limits.handshakes_per_source", most
	}
	s.sources[c.source]++
	c.sourced = true
	return "", 0
}

// forget takes a closed connection off the books.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.noteProgress()
}
