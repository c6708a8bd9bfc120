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
	entries []*entry // in the order of sources
	infos   []Info   // of entries
	sets    map[int]*Set
	faults  []*Fault // of the reading that made it
	parsed  *lru.Cache[*entry, *tls.Certificate]
	room    int // of parsed
}

// Set is those certificates of a Store that some clients can get.
type Set struct {
	store  *Store
	byName map[string][]*entry // lower case; "*.example.com" for a wildcard
	first  []*entry            // for clients that ask for no name, or for one that is not here
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
		s.entries, s.infos = append(s.entries, e), append(s.infos, e.info)
	}
	if len(certs) == 0 {
		return nil, errors.New("certificates: none given")
	}
	s.index()
	return s, nil
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

// index makes the sets of the entries, whose infos tell of their sources.
func (s *Store) index() {
	members := map[int][]*entry{}
	for i, e := range s.entries {
		set := 0
		if at := s.infos[i].Source; at < len(s.sources) {
			set = s.sources[at].Set
		}
		members[set] = append(members[set], e)
	}
	s.sets = make(map[int]*Set, len(members))
	for n, entries := range members {
		s.sets[n] = s.newSet(entries)
	}
}

func (s *Store) newSet(entries []*entry) *Set {
	t := &Set{store: s, byName: make(map[string][]*entry, len(entries))}
	first := map[string]bool{}
	for _, name := range entries[0].names {
		first[name] = true
	}
	for i, e := range entries {
		shares := i == 0
		for _, name := range e.names {
			t.byName[name] = append(t.byName[name], e)
			shares = shares || first[name]
		}
		if shares {
			t.first = append(t.first, e)
		}
	}
	return t
}

// Set returns the certificates of the sources with that Set; nil if there are
// none.
func (s *Store) Set(n int) *Set { return s.sets[n] }

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

// Certificate chooses from the set 0; see Set.Certificate.
func (s *Store) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.sets[0].Certificate(hello)
}

// Certificate chooses for one handshake; it has the form of
// tls.Config.GetCertificate. A nil Set has none: crypto/tls then sends the alert
// unrecognized_name.
func (t *Set) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if t == nil {
		return nil, nil
	}
	return t.store.choose(hello, t.lookup(hello.ServerName))
}

// Covers reports whether a certificate is valid for a name, which may be a
// wildcard.
func (t *Set) Covers(name string) bool { return t != nil && t.find(name) != nil }

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

// lookup finds the certificates for a name, else the first.
func (t *Set) lookup(name string) []*entry {
	if found := t.find(name); found != nil {
		return found
	}
	return t.first
}

// find finds the certificates for a name: its own, else those of the wildcard one
// label up.
func (t *Set) find(name string) []*entry {
	name = strings.ToLower(name)
	if found := t.byName[name]; found != nil {
		return found
	}
	if _, parent, ok := strings.Cut(name, "."); ok {
		return t.byName["*."+parent]
	}
	return nil
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
