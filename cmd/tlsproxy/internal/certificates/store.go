package certificates

import (
	"crypto/tls"
	"errors"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// DefaultParsed is how many certificates are held ready for use if Options do
// not say: some 10 KB each.
const DefaultParsed = 4096

// Options configure a Store.
type Options struct {
	Parsed int // certificates held ready for use, the most recently used; 0: DefaultParsed
}

// Store holds certificates by the names they are valid for. It can be used
// concurrently, and but for its cache never changes.
type Store struct {
	sources []Source
	listed  map[Source]listing
	entries []*entry            // each once, in the order of sources
	infos   []Info              // of entries
	byName  map[string][]*entry // lower case; "*.example.com" for a wildcard
	first   []*entry            // for clients that ask for no name, or for one that is not here
	faults  []*Fault            // of the reading that made it
	parsed  *lru.Cache[*entry, *tls.Certificate]
	room    int // of parsed
}

// NewStore returns a Store of at least one certificate that is in memory. For a
// name that several are valid for, the earlier is preferred among those that the
// client can verify. The first certificate's names also decide for a client that
// asks for no name or for an unknown one.
func NewStore(certs []*tls.Certificate) (*Store, error) {
	s, err := empty(Options{})
	if err != nil {
		return nil, err
	}
	for _, cert := range certs {
		e, err := newEntry(cert)
		if err != nil {
			return nil, errors.New("certificates: " + err.Error())
		}
		e.fixed = cert
		s.entries = append(s.entries, e)
	}
	return s.indexed()
}

func empty(o Options) (*Store, error) {
	if o.Parsed == 0 {
		o.Parsed = DefaultParsed
	}
	parsed, err := lru.New[*entry, *tls.Certificate](o.Parsed)
	if err != nil {
		return nil, errors.New("certificates: Options.Parsed is negative")
	}
	return &Store{parsed: parsed, room: o.Parsed}, nil
}

// indexed finishes a Store whose entries are complete.
func (s *Store) indexed() (*Store, error) {
	if len(s.entries) == 0 {
		return nil, errors.New("certificates: none given")
	}
	s.byName = make(map[string][]*entry, len(s.entries))
	first := map[string]bool{}
	for _, name := range s.entries[0].names {
		first[name] = true
	}
	for i, e := range s.entries {
		shares := i == 0
		for _, name := range e.names {
			s.byName[name] = append(s.byName[name], e)
			shares = shares || first[name]
		}
		if shares {
			s.first = append(s.first, e)
		}
		s.infos = append(s.infos, e.info)
	}
	return s, nil
}

// Certificates describes what the Store holds, in the order in which it was
// named. The slice is the Store's own.
func (s *Store) Certificates() []Info { return s.infos }

// Since counts the certificates that s has and before did not, and the other way
// round. A renewed one is both.
func (s *Store) Since(before *Store) (added, removed int) {
	known := make(map[*entry]bool, len(before.entries))
	for _, e := range before.entries {
		known[e] = true
	}
	for _, e := range s.entries {
		if !known[e] {
			added++
		}
	}
	return added, len(before.entries) - (len(s.entries) - added)
}

// Certificate chooses for one handshake; it has the form of
// tls.Config.GetCertificate.
func (s *Store) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.choose(hello, s.lookup(hello.ServerName))
}

// choose takes the first of the candidates that the client can verify.
func (s *Store) choose(hello *tls.ClientHelloInfo, candidates []*entry) (*tls.Certificate, error) {
	if len(candidates) > 1 {
		nameless := *hello // the name has been looked up, and may be unknown
		nameless.ServerName = ""
		for _, e := range candidates {
			cert, err := s.ready(e)
			if err != nil {
				return nil, err
			}
			if nameless.SupportsCertificate(cert) == nil {
				return cert, nil
			}
		}
	}
	return s.ready(candidates[0]) // crypto/tls tells the client what does not fit
}

// lookup finds the certificates for a name: its own, else those of the
// wildcard one label up, else the first.
func (s *Store) lookup(name string) []*entry {
	name = strings.ToLower(name)
	if found := s.byName[name]; found != nil {
		return found
	}
	if _, parent, ok := strings.Cut(name, "."); ok {
		if found := s.byName["*."+parent]; found != nil {
			return found
		}
	}
	return s.first
}

// ready returns an entry's certificate as handshakes want it: parsed, and
// without an OCSP response whose time is over.
func (s *Store) ready(e *entry) (*tls.Certificate, error) {
	cert, err := s.parse(e)
	if err != nil || e.staple == nil || e.staple.fresh(time.Now()) {
		return cert, err
	}
	bare := *cert
	bare.OCSPStaple = nil
	return &bare, nil
}

// parse returns the parsed form from the cache. Of several handshakes that miss
// it there one parses and the others wait for it.
func (s *Store) parse(e *entry) (*tls.Certificate, error) {
	if e.fixed != nil {
		return e.fixed, nil
	}
	if cert, ok := s.parsed.Get(e); ok {
		return cert, nil
	}
	e.parsing.Lock()
	defer e.parsing.Unlock()
	if cert, ok := s.parsed.Get(e); ok {
		return cert, nil
	}
	cert, err := e.parse()
	if err != nil {
		return nil, err
	}
	s.parsed.Add(e, cert)
	return cert, nil
}
