package service

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/redisstore"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/tickets"
)

// maxPasswordBytes bounds a file with a password.
const maxPasswordBytes = 4096

// ticketFiles are what the configuration of session tickets names.
type ticketFiles struct {
	secrets  [][]byte       // none: random keys
	password string         // of the store; "": none
	storeCA  *x509.CertPool // that vouch for it; nil: the system's
}

// readTickets reads what the configuration of session tickets names.
func (p *Plan) readTickets() (errs config.Errors) {
	t := p.Config.TLS.Tickets
	for _, file := range []string{t.Secrets, t.Store.Password, t.Store.CA} {
		p.files.Note(file)
	}
	var err error
	if t.Secrets != "" {
		if p.tickets.secrets, err = tickets.LoadSecrets(t.Secrets); err != nil {
			errs = append(errs, p.Config.Errorf("tls.tickets.secrets", "%v", err))
		}
	}
	if t.Store.Password != "" {
		if p.tickets.password, err = firstLine(t.Store.Password); err != nil {
			errs = append(errs, p.Config.Errorf("tls.tickets.store.password_file", "%v", err))
		}
	}
	if t.Store.CA != "" {
		if p.tickets.storeCA, err = certificates.LoadPool(t.Store.CA); err != nil {
			errs = append(errs, p.Config.Errorf("tls.tickets.store.ca", "%v", err))
		}
	}
	return errs
}

// firstLine reads a password.
func firstLine(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPasswordBytes))
	if err != nil {
		return "", err
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return "", fmt.Errorf("%s is empty", file)
	}
	return string(line), nil
}

// ticketOptions translates the configuration.
func (p *Plan) ticketOptions() tickets.Options {
	t := p.Config.TLS.Tickets
	return tickets.Options{Period: time.Duration(t.Rotate), Lifetime: time.Duration(t.Lifetime), Secrets: p.tickets.secrets}
}

// ticketKeys are the keys of session tickets, and where they come from.
type ticketKeys struct {
	*tickets.Keys
	options tickets.Options
	stop    func() // following a store
}

// openTickets makes the keys that a Plan wants.
func (s *Service) openTickets(p *Plan) error {
	o := p.ticketOptions()
	keys, err := tickets.New(o)
	if err != nil {
		return err
	}
	s.tickets = &ticketKeys{Keys: keys, options: o, stop: func() {}}
	if before := p.Predecessor; before != nil {
		defer clear(before.Secret())
		if err := keys.Import(before.Secret()); err != nil {
			return err
		}
	}
	return s.shareTickets(p)
}

// setTickets makes the keys those of another Plan. Nothing happens if they are the
// same: random keys stay in use.
func (s *Service) setTickets(p *Plan) error {
	o := p.ticketOptions()
	if reflect.DeepEqual(o, s.tickets.options) {
		return nil
	}
	if p.Config.TLS.Tickets.Store.URL == "" {
		if err := s.tickets.Set(o); err != nil {
			return err
		}
		s.tickets.options = o
		return nil
	}
	s.tickets.stop()
	s.tickets.options = o
	return s.shareTickets(p)
}

// shareTickets has the keys follow the store, if there is one.
func (s *Service) shareTickets(p *Plan) error {
	c := p.Config.TLS.Tickets.Store
	if c.URL == "" {
		return nil
	}
	store, err := redisstore.Open(redisstore.Options{URL: string(c.URL), Username: c.Username, Password: p.tickets.password, Roots: p.tickets.storeCA, Prefix: c.Prefix})
	if err != nil {
		return err
	}
	stop, err := s.tickets.Share(context.Background(), p.ticketOptions(), store, s.storeFailed)
	if err != nil {
		return errors.Join(err, store.Close())
	}
	s.tickets.stop = func() {
		stop()
		store.Close()
	}
	return nil
}

// storeFailed logs when the store begins to fail and when it no longer does.
func (s *Service) storeFailed(err error) {
	if err != nil {
		s.log.Error("the store of session ticket keys fails; sessions resume with the keys that are here", "err", err)
		return
	}
	s.log.Info("the store of session ticket keys works again")
}

// closeTickets ends the following.
func (s *Service) closeTickets() {
	if s.tickets != nil {
		s.tickets.stop()
	}
}
