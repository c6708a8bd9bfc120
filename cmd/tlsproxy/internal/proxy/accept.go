package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
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
		case s.leaving.Load() || s.isDraining():
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

// passing are errors of Accept that say nothing about the listener: the process or the
// system is short of something; one client was quick to go away; the network, or a rule of
// the system's, has something against one connection (accept(2) of Linux, "Error handling").
var passing = []syscall.Errno{
	syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
	syscall.ECONNABORTED, syscall.ECONNRESET,
	syscall.EPROTO, syscall.ENOPROTOOPT, syscall.ENETDOWN, syscall.ENETUNREACH, syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.EPERM,
}

func passes(err error) bool {
	return slices.ContainsFunc(passing, func(errno syscall.Errno) bool { return errors.Is(err, errno) })
}

func (s *Server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// admit starts a connection's handshake, or sheds the connection if a limit is
// reached: new ones are turned away rather than all made slow. Nothing is made for one
// that is shed but what the listener has made already.
func (s *Server) admit(raw net.Conn, trust *proxyprotocol.Trust) {
	c := newConn(s, raw)
	if trust != nil && !c.comesBy(trust) {
		raw.Close()
		s.noteRefusedFront(raw.RemoteAddr(), errUntrusted.Error())
		return
	}
	if over := s.enter(c); over != (excess{}) {
		raw.Close()
		s.noteShed(c, over)
		return
	}
	go s.handshake(c)
}

// noteShed tells of a connection that a limit has cost.
func (s *Server) noteShed(c *conn, over excess) {
	if over != draining {
		s.mu.Lock()
		s.stats.Shed++
		s.mu.Unlock()
	}
	s.observer.ObserveShed(over.limit)
	s.limiters.shed.Log(slog.LevelWarn, "connection shed", func() []slog.Attr {
		attrs := []slog.Attr{slog.String("remote", c.RemoteAddr().String()), slog.String("limit", over.limit), slog.Int("value", over.value)}
		if c.host != nil {
			attrs = append(attrs, slog.String("host", c.host.Name))
		}
		return attrs
	})
}

// draining is why there are no new connections, and no limit.
var draining = excess{limit: "draining"}

// enter takes c into the books, or names the limit that is reached.
func (s *Server) enter(c *conn) excess {
	limits := &c.live.limits
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		return draining
	case len(s.conns) >= limits.Connections:
		return excess{"limits.connections", limits.Connections}
	case s.books.handshaking >= limits.Handshakes:
		return excess{"limits.handshakes", limits.Handshakes}
	case c.live.turns.crowded():
		return c.live.turns.reached()
	}
	if c.trust == nil {
		if over := s.books.takeSource(c.source, limits); over != (excess{}) {
			return over
		}
		c.sourced = true
	}
	s.conns[c] = struct{}{}
	s.stats.Accepted++
	c.number = s.stats.Accepted
	s.books.handshaking++
	s.working.Add(1) // before Shutdown can wait for it: draining is false
	return excess{}
}

// enterHost is the part of enter that has to wait for the ClientHello. A connection
// that was closed meanwhile is off the books, and stays off.
func (s *Server) enterHost(c *conn) excess {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.conns[c]; !open {
		return excess{}
	}
	over := s.books.takeHost(c.host.Name, c.host.Connections)
	c.hosted = over == (excess{})
	return over
}

// enterSource is the part of enter that has to wait for a PROXY header, if there is
// one to come. A connection that was closed meanwhile is off the books, and stays off.
func (s *Server) enterSource(c *conn) excess {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.conns[c]; !open {
		return excess{}
	}
	over := s.books.takeSource(c.source, &c.live.limits)
	c.sourced = over == (excess{})
	return over
}

// forget takes a closed connection off the books.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if c.sourced {
		s.books.leaveSource(c.source, 1, 0)
	}
	if c.hosted {
		s.books.leaveHost(c.host.Name)
	}
	s.noteProgress()
}
