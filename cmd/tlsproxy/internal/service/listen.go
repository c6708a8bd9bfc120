package service

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxyprotocol"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/sockets"
)

// listener is a socket that clients connect to.
type listener struct {
	sockets.Listener
	trust *proxyprotocol.Trust // nil: connections are the clients' own
}

var errNoListener = errors.New("service: no address to listen on")

// listen opens the listeners.
func (s *Service) listen() error {
	p := s.current()
	for i, l := range p.Config.Listen {
		spec := socketSpec(l)
		opened, err := spec.Open(p.Sockets)
		if err != nil {
			return p.Config.Errorf(fmt.Sprintf("listen[%d]", i), "%v", err)
		}
		for _, ln := range opened {
			s.listeners = append(s.listeners, listener{ln, trust(l.ProxyProtocol)})
		}
	}
	if len(s.listeners) == 0 {
		return errNoListener
	}
	return nil
}

// socketSpec translates the configuration.
func socketSpec(l config.Listener) sockets.Spec {
	if path, ok := l.Address.Unix(); ok {
		return sockets.Spec{Unix: path, Mode: fs.FileMode(l.Mode)}
	}
	if name, ok := l.Address.Systemd(); ok {
		return sockets.Spec{Systemd: name}
	}
	return sockets.Spec{TCP: string(l.Address), ReusePort: l.ReusePort}
}

// trust translates the configuration.
func trust(p config.ProxyProtocol) *proxyprotocol.Trust {
	if len(p.From) == 0 {
		return nil
	}
	t := &proxyprotocol.Trust{Optional: p.Mode == config.ProxyOptional, Timeout: time.Duration(p.Timeout)}
	for _, from := range p.From {
		if from.Unix {
			t.Unix = true
		} else {
			t.Prefixes = append(t.Prefixes, from.Prefix)
		}
	}
	return t
}

// inheritance are the sockets that a successor gets.
func (s *Service) inheritance() (all []sockets.Listener) {
	for _, ln := range s.listeners {
		all = append(all, ln.Listener)
	}
	return append(all, s.operation.listeners...)
}

// challenged is where an authority's handshakes come in: the first listener with
// a port.
func (s *Service) challenged() net.Addr {
	for _, ln := range s.listeners {
		if _, ok := ln.Addr().(*net.TCPAddr); ok {
			return ln.Addr()
		}
	}
	return s.listeners[0].Addr()
}
