package certificates

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Info describes a certificate.
type Info struct {
	Source              int      // the index of the Source that named it
	File                string   // of its chain; "" if it is held in memory only
	Names               []string // host names and IP addresses that it is valid for, else its common name
	Algorithm           string   // of its key, such as ECDSAP256
	NotBefore, NotAfter time.Time
	StapleUntil         time.Time // of the OCSP response beside it; zero if there is none
	Problem             string    // with that response, which is then not used; else ""
}

// entry is one certificate in its compact form.
type entry struct {
	pair   Pair
	stamps stamps
	chain  [][]byte // DER, the leaf first; what several have in common they share
	key    []byte   // PKCS #8
	staple *staple  // nil: none
	info   Info
	names  []string // that clients ask for, lower case

	fixed   *tls.Certificate // held in memory only; nil: made of the above
	parsing sync.Mutex
}

// loadEntry reads a pair's files, whose stamps were taken before.
func loadEntry(pair Pair, taken stamps) (*entry, error) {
	cert, err := Load(pair.Cert, pair.Key)
	if err != nil {
		return nil, err
	}
	e, err := newEntry(cert)
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", pair.Cert, err)
	}
	e.pair, e.stamps, e.info.File = pair, taken, pair.Cert
	e.chain = cert.Certificate
	if e.key, err = x509.MarshalPKCS8PrivateKey(cert.PrivateKey); err != nil {
		return nil, fmt.Errorf("key %s: %w", pair.Key, err)
	}
	if e.staple, err = loadStaple(pair.stapleFile(), cert); err != nil {
		e.info.Problem = err.Error()
	}
	if e.staple != nil {
		e.info.StapleUntil = e.staple.until
	}
	return e, nil
}

// ECDSAP256 is the Algorithm of keys that provider.Signer serves.
const ECDSAP256 = "ECDSA P-256"

func algorithmOf(leaf *x509.Certificate) string {
	name := leaf.PublicKeyAlgorithm.String()
	switch key := leaf.PublicKey.(type) {
	case *ecdsa.PublicKey:
		return name + " " + key.Params().Name
	case *rsa.PublicKey:
		return fmt.Sprintf("%s %d", name, key.N.BitLen())
	}
	return name
}

// same reports whether two readings of one pair gave the same.
func (e *entry) same(other *entry) bool {
	return e.stamps.equal(&other.stamps) && slices.EqualFunc(e.chain, other.chain, bytes.Equal) &&
		bytes.Equal(e.key, other.key) && e.staple.same(other.staple)
}

// newEntry describes a certificate.
func newEntry(cert *tls.Certificate) (*entry, error) {
	leaf := cert.Leaf
	if leaf == nil {
		return nil, errors.New("it comes without its parsed leaf")
	}
	e := &entry{info: Info{
		Names: slices.Clone(leaf.DNSNames), Algorithm: algorithmOf(leaf),
		NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter,
	}}
	for _, ip := range leaf.IPAddresses {
		e.info.Names = append(e.info.Names, ip.String())
	}
	if len(e.info.Names) == 0 {
		e.info.Names = append(e.info.Names, leaf.Subject.CommonName)
	}
	for _, name := range leaf.DNSNames {
		e.names = append(e.names, strings.ToLower(name))
	}
	if len(e.names) == 0 && leaf.Subject.CommonName != "" {
		e.names = append(e.names, strings.ToLower(leaf.Subject.CommonName))
	}
	return e, nil
}

// parse makes the certificate ready for use. No other place does.
func (e *entry) parse() (*tls.Certificate, error) {
	key, err := x509.ParsePKCS8PrivateKey(e.key)
	if err != nil {
		return nil, fmt.Errorf("certificates: the key of %s: %w", e.pair.Cert, err)
	}
	leaf, err := x509.ParseCertificate(e.chain[0])
	if err != nil {
		return nil, fmt.Errorf("certificates: %s: %w", e.pair.Cert, err)
	}
	cert := &tls.Certificate{Certificate: e.chain, PrivateKey: key, Leaf: leaf}
	if e.staple != nil {
		cert.OCSPStaple = e.staple.der
	}
	return cert, nil
}

// issuers lets certificates share the rest of their chains, which is mostly the
// same for many.
type issuers map[[sha256.Size]byte][]byte

// of returns the one copy of a certificate that all share.
func (s issuers) of(der []byte) []byte {
	sum := sha256.Sum256(der)
	if known, ok := s[sum]; ok {
		return known
	}
	s[sum] = der
	return der
}

// share replaces what others have too. The entry must not be in use yet.
func (s issuers) share(e *entry) {
	for i := 1; i < len(e.chain); i++ {
		e.chain[i] = s.of(e.chain[i])
	}
}

// learn notes what an entry in use has.
func (s issuers) learn(e *entry) {
	for _, der := range e.chain[1:] {
		s.of(der)
	}
}
