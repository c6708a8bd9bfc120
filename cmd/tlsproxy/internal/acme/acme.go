package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
)

// Options configure a Manager. Every field but Email and Roots is required.
type Options struct {
	Email     string         // of whoever the authority is to write to; "": nobody
	Directory string         // the URL of the authority's directory
	Roots     *x509.CertPool // whom to trust for the directory; nil: the system's
	Storage   string         // the folder for certificates, their keys and the account's
	Address   net.Addr       // where the handshakes come in that Challenge is shown
	Logger    *slog.Logger
}

// Manager holds certificates for some names. Its methods may be called
// concurrently.
type Manager struct {
	magic *certmagic.Config
	cache *certmagic.Cache
	store *storage
	log   *slog.Logger
	base  context.Context
	stop  context.CancelFunc

	mu    sync.RWMutex
	names map[string]bool
}

// New returns a Manager of no names. Close it. The caller has agreed to the
// authority's terms.
func New(o Options) (*Manager, error) {
	host, portText, err := net.SplitHostPort(o.Address.String())
	if err != nil {
		return nil, fmt.Errorf("acme: %w", err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, fmt.Errorf("acme: %w", err)
	}
	m := &Manager{names: map[string]bool{}, store: newStorage(o.Storage), log: o.Logger}
	logger := zap.New(&core{log: o.Logger})
	m.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return m.magic, nil },
		Logger:           logger,
	})
	m.magic = certmagic.New(m.cache, certmagic.Config{Storage: m.store, Logger: logger})
	// The solver of tls-alpn-01 finds its address in use, by us, and leaves the
	// answer to whoever listens there.
	m.magic.Issuers = []certmagic.Issuer{certmagic.NewACMEIssuer(m.magic, certmagic.ACMEIssuer{
		CA: o.Directory, TestCA: o.Directory, Email: o.Email, Agreed: true, TrustedRoots: o.Roots,
		DisableHTTPChallenge: true, ListenHost: host, AltTLSALPNPort: port, Logger: logger,
	})}
	m.base, m.stop = context.WithCancel(context.Background())
	return m, nil
}

// Manage sees to certificates for names from now on, those that were named before
// included, and for no others. It returns without waiting for them.
func (m *Manager) Manage(names []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var added []string
	next := make(map[string]bool, len(names))
	for _, name := range names {
		name = strings.ToLower(name)
		if next[name] = true; !m.names[name] {
			added = append(added, name)
		}
	}
	var gone []certmagic.SubjectIssuer
	for name := range m.names {
		if !next[name] {
			gone = append(gone, certmagic.SubjectIssuer{Subject: name})
		}
	}
	m.names = next
	m.cache.RemoveManaged(gone)
	if err := m.magic.ManageAsync(m.base, added); err != nil {
		return fmt.Errorf("acme: %w", err)
	}
	return nil
}

// Serves reports whether name is one of those that certificates are for.
func (m *Manager) Serves(name string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.names[strings.ToLower(name)]
}

var errNone = errors.New("acme: there is no certificate for this name yet")

// Certificate returns the one for a name that m serves. There is none as long as
// the authority has issued none.
func (m *Manager) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if !m.Serves(hello.ServerName) || isChallenge(hello) {
		return nil, errNone
	}
	cert, err := m.magic.GetCertificate(hello)
	if err != nil || len(cert.Certificate) == 0 {
		return nil, errNone
	}
	return cert, nil
}

// Challenge returns the policy for a handshake by which an authority finds out who
// answers at a name that m serves. It returns nil for all other handshakes.
func (m *Manager) Challenge(hello *tls.ClientHelloInfo) *tls.Config {
	if !isChallenge(hello) || !m.Serves(hello.ServerName) {
		return nil
	}
	return &tls.Config{GetCertificate: m.magic.GetCertificate, NextProtos: []string{protocol}, SessionTicketsDisabled: true}
}

// protocol is what authorities ask for by ALPN (RFC 8737, section 6.2).
const protocol = "acme-tls/1"

// isChallenge knows an authority's handshake (RFC 8737, section 3).
func isChallenge(hello *tls.ClientHelloInfo) bool {
	return len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == protocol
}

// Close ends what is under way. What was issued stays in the storage, which nobody
// writes to any more.
func (m *Manager) Close() {
	m.stop()
	m.cache.Stop()
	if !m.store.close(patience) {
		m.log.Warn("what ACME was about did not end; the next start may have to wait for its lock", "waited", patience)
	}
}

// patience is how long Close waits for requests to an authority, which end when
// they are told.
const patience = 5 * time.Second
