package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxFileBytes bounds a PEM file: a chain of some hundred certificates fits.
const maxFileBytes = 1 << 20

// Load reads a certificate chain and its private key, both PEM. The key must
// belong to the first certificate of the chain.
func Load(certFile, keyFile string) (*tls.Certificate, error) {
	chain, err := read(certFile)
	if err != nil {
		return nil, err
	}
	key, err := read(keyFile)
	if err != nil {
		return nil, err
	}
	defer clear(key)
	cert, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %s", certFile, keyFile, strings.TrimPrefix(err.Error(), "tls: "))
	}
	return &cert, nil
}

// LoadPool reads the certificates of authorities, PEM.
func LoadPool(file string) (*x509.CertPool, error) {
	data, err := read(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s holds no PEM certificate", file)
	}
	return pool, nil
}

func read(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes", file, maxFileBytes)
	}
	return data, nil
}

// Store holds certificates by the names they are valid for. It is immutable
// and can be used concurrently.
type Store struct {
	byName map[string][]*tls.Certificate // lower case; "*.example.com" for a wildcard
	first  []*tls.Certificate            // for clients that ask for no name, or for one that is not here
}

// NewStore returns a Store of at least one certificate. For a name that
// several are valid for, the earlier is preferred among those that the client
// can verify. The first certificate's names also decide for a client that asks
// for no name or for an unknown one.
func NewStore(certs []*tls.Certificate) (*Store, error) {
	if len(certs) == 0 {
		return nil, errors.New("certificates: none given")
	}
	s := &Store{byName: map[string][]*tls.Certificate{}}
	for _, cert := range certs {
		names, err := namesOf(cert)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			s.byName[name] = append(s.byName[name], cert)
		}
		if cert == certs[0] || sharesName(names, certs[0]) {
			s.first = append(s.first, cert)
		}
	}
	return s, nil
}

// namesOf lists what a certificate is valid for, in lower case.
func namesOf(cert *tls.Certificate) ([]string, error) {
	leaf := cert.Leaf
	if leaf == nil {
		return nil, errors.New("certificates: a certificate without its parsed leaf")
	}
	var names []string
	for _, name := range leaf.DNSNames {
		names = append(names, strings.ToLower(name))
	}
	if len(names) == 0 && leaf.Subject.CommonName != "" {
		names = append(names, strings.ToLower(leaf.Subject.CommonName))
	}
	return names, nil
}

// sharesName reports whether first is valid for one of names.
func sharesName(names []string, first *tls.Certificate) bool {
	of, err := namesOf(first)
	if err != nil {
		return false
	}
	for _, name := range names {
		for _, other := range of {
			if name == other {
				return true
			}
		}
	}
	return false
}

// Certificate chooses for one handshake; it has the form of
// tls.Config.GetCertificate.
func (s *Store) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	candidates := s.lookup(hello.ServerName)
	if len(candidates) > 1 {
		nameless := *hello // the name has been looked up, and may be unknown
		nameless.ServerName = ""
		for _, cert := range candidates {
			if nameless.SupportsCertificate(cert) == nil {
				return cert, nil
			}
		}
	}
	return candidates[0], nil // crypto/tls tells the client what does not fit
}

// lookup finds the certificates for a name: its own, else those of the
// wildcard one label up, else the first.
func (s *Store) lookup(name string) []*tls.Certificate {
	name = strings.ToLower(name)
	if certs := s.byName[name]; certs != nil {
		return certs
	}
	if _, parent, ok := strings.Cut(name, "."); ok {
		if certs := s.byName["*."+parent]; certs != nil {
			return certs
		}
	}
	return s.first
}
