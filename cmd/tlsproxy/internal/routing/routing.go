package routing

import (
	"fmt"
	"iter"
	"path"
	"strings"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

// Table holds the hosts of a configuration. It is immutable and can be used
// concurrently.
type Table struct {
	exact    map[string]*Host // by lower-case name
	wildcard map[string]*Host // by what follows the star and its dot
	rest     *Host            // for names that no other covers; nil: refused
	hosts    []*Host
}

// Host is what happens to the connections for some names.
type Host struct {
	Index       int    // of its entry in the configuration's hosts; -1: none, names that are unknown
	Name        string // the first of its names
	Mode        config.Mode
	Pool        *backend.Pool // of requests beneath no route, and of connections
	Connections int           // at most; 0: no bound
	routes      map[string]*backend.Pool
	longest     int // path of routes, in bytes
}

// New makes a Table of a configuration that was checked, and of its pools by
// their names.
func New(c *config.Config, pools map[string]*backend.Pool) (*Table, error) {
	t := &Table{exact: map[string]*Host{}, wildcard: map[string]*Host{}}
	for i, entry := range c.Hosts {
		h, err := newHost(i, entry, pools)
		if err != nil {
			return nil, err
		}
		t.hosts = append(t.hosts, h)
		for _, name := range entry.Names {
			t.add(string(name), h)
		}
	}
	if t.rest == nil && c.UnknownHost == config.UnknownHostDefault {
		h, err := newHost(-1, config.Host{Names: []config.HostName{config.AnyHost}, Mode: config.ModeHTTP, Pool: config.DefaultPool}, pools)
		if err != nil {
			return nil, err
		}
		t.rest = h
		t.hosts = append(t.hosts, h)
	}
	return t, nil
}

func newHost(index int, entry config.Host, pools map[string]*backend.Pool) (*Host, error) {
	h := &Host{Index: index, Name: string(entry.Names[0]), Mode: entry.Mode, Pool: pools[entry.Pool], Connections: entry.Limits.Connections,
		routes: make(map[string]*backend.Pool, len(entry.Routes))}
	if h.Pool == nil {
		return nil, fmt.Errorf("routing: there is no pool %q", entry.Pool)
	}
	for _, r := range entry.Routes {
		pool := pools[r.Pool]
		if pool == nil {
			return nil, fmt.Errorf("routing: there is no pool %q", r.Pool)
		}
		h.addRoute(string(r.Path), pool)
	}
	return h, nil
}

func (h *Host) addRoute(path string, to *backend.Pool) {
	h.routes[path] = to
	h.longest = max(h.longest, len(path))
}

func (t *Table) add(name string, h *Host) {
	if config.HostName(name) == config.AnyHost {
		t.rest = h
	} else if parent, ok := strings.CutPrefix(name, "*."); ok {
		t.wildcard[parent] = h
	} else {
		t.exact[name] = h
	}
}

// Hosts lists every Host that Find can return.
func (t *Table) Hosts() []*Host { return t.hosts }

// Find returns the Host for a server name, or for what a Host header holds: the
// one of exactly that name, else that of the wildcard one label up, else the one
// for all other names. It is nil if clients that ask for such a name are to be
// refused.
func (t *Table) Find(name string) *Host {
	if len(t.exact) == 0 && len(t.wildcard) == 0 {
		return t.rest
	}
	name = canonical(name)
	if h := t.exact[name]; h != nil {
		return h
	}
	if label, parent, ok := strings.Cut(name, "."); ok && label != "" {
		if h := t.wildcard[parent]; h != nil {
			return h
		}
	}
	return t.rest
}

// canonical takes off a port and the dot of the root.
func canonical(host string) string {
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:colon]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// Route returns the longest route that covers a request's path, whose
// percent-encoding is undone, and its pool; "" and the Host's pool if none does.
func (h *Host) Route(requested string) (route string, pool *backend.Pool) {
	if len(h.routes) == 0 {
		return "", h.Pool
	}
	for p := range covering(clean(requested), h.longest) {
		if pool := h.routes[p]; pool != nil {
			return p, pool
		}
	}
	return "", h.Pool
}

// covering are the paths that cover p and have so many bytes at most, the longest first:
// p, and what ends in front of or with one of its slashes. Longer ones are not looked
// at: clients choose how long p is, and each would be as much work as it is long.
func covering(p string, most int) iter.Seq[string] {
	return func(yield func(string) bool) {
		if len(p) <= most && !yield(p) {
			return
		}
		p = p[:min(len(p), most+1)]
		for slash := strings.LastIndexByte(p, '/'); slash >= 0; slash = strings.LastIndexByte(p, '/') {
			if slash < most && !yield(p[:slash+1]) || !yield(p[:slash]) {
				return
			}
			p = p[:slash]
		}
	}
}

// clean resolves dot and empty segments, as a backend may do: a request must
// not reach one pool by another's path.
func clean(p string) string {
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	if !strings.Contains(p, "//") && !strings.Contains(p, "/.") {
		return p
	}
	cleaned := path.Clean(p)
	if cleaned != "/" && (strings.HasSuffix(p, "/") || strings.HasSuffix(p, "/.") || strings.HasSuffix(p, "/..")) {
		cleaned += "/"
	}
	return cleaned
}
