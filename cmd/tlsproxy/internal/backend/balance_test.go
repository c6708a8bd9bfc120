package backend

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// ring makes backends that nobody speaks to.
func ring(n int) []*backend {
	set := make([]*backend, n)
	for i := range set {
		set[i] = newBackend(&Options{}, &url.URL{Scheme: "http", Host: fmt.Sprintf("b%d.example:80", i)}, "")
	}
	return set
}

// TestLeastConnections: requests under way decide, and take turns where they are
// equal.
func TestLeastConnections(t *testing.T) {
	set := ring(3)
	lc := newBalancer(LeastConnections)
	seen := map[*backend]int{}
	for range 300 {
		seen[lc.next(set, 0, nil)]++
	}
	for i, b := range set {
		if seen[b] != 100 {
			t.Errorf("b%d of equals was chosen %d times of 300", i, seen[b])
		}
	}
	set[0].underway.Store(2)
	set[1].underway.Store(1)
	for range 5 {
		if b := lc.next(set, 0, nil); b != set[2] {
			t.Errorf("chose one with %d under way", b.underway.Load())
		}
	}
	if b := lc.next(set, 0, []*backend{set[2]}); b != set[1] {
		t.Error("the second best was not chosen")
	}
	if lc.next(set, 0, set) != nil {
		t.Error("chose from none")
	}
}

// TestRendezvous: keys stay where they are when others come and go, and are
// spread evenly.
func TestRendezvous(t *testing.T) {
	set := ring(10)
	h := newBalancer(Hash)
	const keys = 20_000
	home := map[uint64]*backend{}
	counts := map[*backend]int{}
	for i := range keys {
		key := hashOf(fmt.Sprint("client ", i))
		home[key] = h.next(set, key, nil)
		counts[home[key]]++
	}
	for i, b := range set {
		if n := counts[b]; n < keys/10*9/10 || n > keys/10*11/10 {
			t.Errorf("b%d has %d keys of %d", i, n, keys)
		}
	}
	fewer := slices.Delete(slices.Clone(set), 3, 4)
	counts = map[*backend]int{}
	for key, b := range home {
		got := h.next(fewer, key, nil)
		if b != set[3] && got != b {
			t.Fatal("a key moved although its backend is there")
		}
		if b == set[3] {
			counts[got]++
		}
		if again := h.next(set, key, []*backend{set[3]}); again != got {
			t.Fatal("leaving a backend out differs from its not being there")
		}
	}
	if len(counts) != 9 {
		t.Errorf("the keys of the backend that is gone went to %d others", len(counts))
	}
	rand.Shuffle(len(set), func(i, j int) { set[i], set[j] = set[j], set[i] })
	for key, b := range home {
		if h.next(set, key, nil) != b {
			t.Fatal("the order of the backends matters")
		}
	}
}

// TestBoundedLoad: one key that all clients share does not drown its backend.
func TestBoundedLoad(t *testing.T) {
	set := ring(4)
	h := newBalancer(Hash)
	var all int64
	for range 1000 {
		b := h.next(set, 42, nil)
		b.enter()
		all++
		if load := b.underway.Load(); load > (5*all+15)/16 {
			t.Fatalf("%d of %d requests on one of 4 backends", load, all)
		}
	}
	idle := ring(4)
	home := h.next(idle, 42, nil)
	for _, b := range set {
		b.underway.Store(0)
	}
	if got := h.next(set, 42, nil); got.name != home.name {
		t.Errorf("once there is little to do the key is at %s, not at %s", got.name, home.name)
	}
}

func TestKeys(t *testing.T) {
	request := func(remote string, h http.Header) *http.Request {
		return &http.Request{RemoteAddr: remote, Header: h}
	}
	for _, test := range []struct {
		key  Key
		r    *http.Request
		want string
	}{
		{Key{}, request("192.0.2.1:1234", nil), "192.0.2.1"},
		{Key{}, request("[2001:db8::1]:1234", nil), "[2001:db8::1]"},
		{Key{}, request("@", nil), "@"},
		{Key{Header: "X-Key"}, request("192.0.2.1:1", http.Header{"X-Key": {"k"}}), "k"},
		{Key{Header: "X-Key"}, request("192.0.2.1:1", nil), "192.0.2.1"},
		{Key{Cookie: "session"}, request("192.0.2.1:1", http.Header{"Cookie": {"a=b; session=s"}}), "s"},
		{Key{Cookie: "session"}, request("192.0.2.1:1", http.Header{"Cookie": {"session="}}), "192.0.2.1"},
	} {
		if got := test.key.of(test.r); got != hashOf(test.want) {
			t.Errorf("%+v of %+v is not that of %s", test.key, test.r, test.want)
		}
	}
}

// TestHashedRequests: one session stays with one backend, and moves when that is
// down, for as long as it is.
func TestHashedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusterWith(t, 5, nil, func(o *Options) { o.Balance, o.Key = Hash, Key{Header: "Session"} })
		ask := func(session string) string {
			r, _ := http.NewRequest(http.MethodGet, "http://front.example/", nil)
			r.Header.Set("Session", session)
			response, err := c.pool.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			return response.Header.Get("Backend")
		}
		homes := map[string]bool{}
		for i := range 50 {
			session := fmt.Sprint("s", i)
			home := ask(session)
			homes[home] = true
			for range 3 {
				if got := ask(session); got != home {
					t.Fatalf("session %d went to %s and %s", i, home, got)
				}
			}
		}
		if len(homes) != 5 {
			t.Errorf("50 sessions use %d of 5 backends", len(homes))
		}
		home := ask("s")
		c.pool.Close()
		c.listeners[home].SetDown(true)
		other := ask("s")
		if other == home || ask("s") != other {
			t.Errorf("from %s to %s", home, other)
		}
		c.listeners[home].SetDown(false)
		time.Sleep(time.Minute)
		if got := ask("s"); got != home {
			t.Errorf("home is %s, back at %s", home, got)
		}
	})
}

// TestUnderway: a backend is busy until the answer's body is closed, in whatever
// way the request ends.
func TestUnderway(t *testing.T) {
	for _, protocol := range []Protocol{HTTP1, H2C} {
		synctest.Test(t, func(t *testing.T) {
			c := newClusterWith(t, 1, func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/empty":
					w.WriteHeader(http.StatusNoContent)
				case "/broken":
					panic(http.ErrAbortHandler)
				case "/silent":
					<-r.Context().Done()
				default:
					fmt.Fprint(w, strings.Repeat("x", 1<<16))
				}
			}, func(o *Options) { o.Protocol = protocol })
			b := (*c.pool.set.Load())[0]
			for _, path := range []string{"/", "/empty", "/broken", "/silent", "/"} {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://front.example"+path, nil)
				response, err := c.pool.RoundTrip(r)
				if err == nil {
					want := int64(1)
					if path == "/empty" && protocol == HTTP1 {
						want = 0
					}
					if got := b.underway.Load(); got != want {
						t.Errorf("%s: %d under way, want %d", path, got, want)
					}
					response.Body.Close()
					response.Body.Close() // counts once
				}
				if got := b.underway.Load(); got != 0 {
					t.Errorf("%s: %d under way in the end", path, got)
				}
				cancel()
			}
		})
	}
}
