package routing

import (
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// table makes a Table of lines of a configuration; every pool has one backend.
// The names of the pools are returned by pool.
func table(t *testing.T, lines string) (*Table, map[*backend.Pool]string) {
	t.Helper()
	c, err := config.Parse("c", []byte("certificates: [{cert: a, key: b}]\nbackends: {urls: http://b}\n"+lines))
	if err != nil {
		t.Fatal(err)
	}
	pools, names := map[string]*backend.Pool{}, map[*backend.Pool]string{}
	for _, name := range c.PoolNames() {
		pool, err := backend.New(backend.Options{URLs: []*url.URL{{Scheme: "http", Host: "b"}}, EjectAfter: 1, EjectFor: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		pools[name], names[pool] = pool, name
	}
	tab, err := New(c, pools)
	if err != nil {
		t.Fatal(err)
	}
	return tab, names
}

const threeHosts = `pools: {w: {urls: 'http://b'}, x: {urls: 'http://b'}, api: {urls: 'http://b'}, v1: {urls: 'http://b'}, root: {urls: 'http://b'}}
hosts:
- {names: [www.example.org, other.example], pool: w}
- {names: "*.example.org", pool: x}
`

func TestFind(t *testing.T) {
	for _, test := range []struct{ lines, name, want string }{
		{threeHosts, "www.example.org", "w"},
		{threeHosts, "WWW.example.ORG", "w"},
		{threeHosts, "www.example.org.", "w"},
		{threeHosts, "www.example.org:8443", "w"},
		{threeHosts, "www.example.org.:8443", "w"},
		{threeHosts, "other.example", "w"},
		{threeHosts, "a.example.org", "x"},
		{threeHosts, "a.b.example.org", "default"},
		{threeHosts, "example.org", "default"},
		{threeHosts, ".example.org", "default"},
		{threeHosts, "", "default"},
		{threeHosts, "[::1]", "default"},
		{threeHosts, "[::1]:443", "default"},
		{threeHosts, "*.example.org", "x"},
		{threeHosts + "unknown_host: refuse\n", "unknown", "refused"},
		{threeHosts + "unknown_host: refuse\n", "", "refused"},
		{threeHosts + "unknown_host: refuse\n", "other.example", "w"},
		{threeHosts + "- {names: '*', pool: api}\n", "unknown", "api"},
		{threeHosts + "- {names: '*', pool: api}\n", "", "api"},
		{"", "anything", "default"},
		{"unknown_host: refuse\n", "anything", "refused"},
	} {
		tab, names := table(t, test.lines)
		got := "refused"
		if h := tab.Find(test.name); h != nil {
			got = names[h.Pool]
		}
		if got != test.want {
			t.Errorf("%q: %s, want %s", test.name, got, test.want)
		}
	}
}

// TestHosts: every host that can be found is listed, once.
func TestHosts(t *testing.T) {
	tab, _ := table(t, threeHosts)
	if n := len(tab.Hosts()); n != 3 {
		t.Errorf("%d hosts", n)
	}
	for i, h := range tab.Hosts() {
		if want := []int{0, 1, -1}[i]; h.Index != want {
			t.Errorf("host %d has index %d, want %d", i, h.Index, want)
		}
	}
}

func TestRoute(t *testing.T) {
	tab, names := table(t, strings.Replace(threeHosts, "pool: x", `pool: x, routes: [{path: /api, pool: api}, {path: /api/v1/, pool: v1}, {path: /only/, pool: root}]`, 1))
	h := tab.Find("a.example.org")
	paths := map[string]string{"x": "", "api": "/api", "v1": "/api/v1/", "root": "/only/"}
	for path, want := range map[string]string{
		"/":                      "x",
		"":                       "x",
		"/apis":                  "x",
		"/API":                   "x",
		"/api":                   "api",
		"/api/":                  "api",
		"/api/v1":                "api",
		"/api/v1/":               "v1",
		"/api/v1/users":          "v1",
		"/api/v1/a/b/c":          "v1",
		"/api/v2/users":          "api",
		"/api/v1/../v2":          "api",
		"/api//v1///users":       "v1",
		"/x/../api/./v1/.":       "v1",
		"/api/v1/..":             "api",
		"/api/v1/../..":          "x",
		"/../../api/v1/x":        "v1",
		"/only":                  "x",
		"/only/":                 "root",
		"/only/..":               "x",
		"/.hidden":               "x",
		"/only/.well-known/acme": "root",
		"api":                    "api",
	} {
		route, pool := h.Route(path)
		if got := names[pool]; got != want || route != paths[want] {
			t.Errorf("%q: %s by %q, want %s by %q", path, got, route, want, paths[want])
		}
	}
	tab, names = table(t, `hosts: [{names: a, routes: [{path: /, pool: default}]}]`+"\n")
	if route, pool := tab.Find("a").Route("/x"); names[pool] != "default" || route != "/" {
		t.Errorf("a route for all paths: %s by %q", names[pool], route)
	}
}

func TestMissingPool(t *testing.T) {
	c := config.Default()
	if _, err := New(c, nil); err == nil || err.Error() != `routing: there is no pool "default"` {
		t.Error(err)
	}
}

// TestAgainstPlainSearch compares both searches with ones that look at every
// name and route.
func TestAgainstPlainSearch(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	labels := []string{"a", "b", "www", "org"}
	name := func(most int) string {
		parts := make([]string, 1+r.IntN(most))
		for i := range parts {
			parts[i] = labels[r.IntN(len(labels))]
		}
		return strings.Join(parts, ".")
	}
	segments := []string{"a", "b", "", ".", "..", "..."}
	path := func(most int, plain bool) string {
		p := ""
		for range r.IntN(most) {
			n := len(segments)
			if plain {
				n = 2
			}
			p += "/" + segments[r.IntN(n)]
		}
		if r.IntN(2) == 0 || p == "" {
			p += "/"
		}
		return p
	}
	for range 300 {
		t0 := &Table{exact: map[string]*Host{}, wildcard: map[string]*Host{}, rest: &Host{}}
		for range r.IntN(6) {
			h := &Host{Pool: new(backend.Pool), routes: map[string]*backend.Pool{}}
			for range r.IntN(5) {
				h.addRoute(path(4, true), new(backend.Pool))
			}
			n := name(3)
			if r.IntN(2) == 0 {
				n = "*." + n
			}
			t0.add(n, h)
		}
		for range 50 {
			n := name(4)
			got, want := t0.Find(n), plainFind(t0, n)
			if got != want {
				t.Fatalf("%q is found elsewhere than in %v and %v", n, t0.exact, t0.wildcard)
			}
			p := path(6, false)
			if _, pool := got.Route(p); got.Pool != nil && pool != plainPool(got, p) {
				t.Fatalf("%q leads elsewhere than %v says", p, got.routes)
			}
		}
	}
}

// TestLongPaths: a client that asks for a long path, with a slash wherever there can be
// one, has no more looked up than the longest route is long.
func TestLongPaths(t *testing.T) {
	const longest = 9
	n := 0
	for p := range covering(strings.Repeat("/a", 10_000), longest) {
		if len(p) > longest {
			t.Errorf("%d bytes are looked up", len(p))
		}
		n++
	}
	if n != 2*(longest+1)/2 {
		t.Errorf("%d paths are looked up", n)
	}
}

func plainFind(t *Table, name string) *Host {
	for n, h := range t.exact {
		if n == name {
			return h
		}
	}
	for n, h := range t.wildcard {
		if label, ok := strings.CutSuffix(name, "."+n); ok && !strings.Contains(label, ".") {
			return h
		}
	}
	return t.rest
}

func plainPool(h *Host, requested string) *backend.Pool {
	best, pool := -1, h.Pool
	p := clean(requested)
	for route, to := range h.routes {
		covers := p == route || strings.HasPrefix(p, strings.TrimSuffix(route, "/")+"/")
		if covers && len(route) > best {
			best, pool = len(route), to
		}
	}
	return pool
}
