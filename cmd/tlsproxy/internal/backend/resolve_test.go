package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func newLog(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// dns answers lookups with what it is told.
type dns struct {
	mu        sync.Mutex
	addresses []string
	err       error
	lookups   int
}

func (d *dns) set(err error, addresses ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err, d.addresses = err, addresses
}

func (d *dns) lookup(context.Context, string, string) ([]netip.Addr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lookups++
	var all []netip.Addr
	for _, a := range d.addresses {
		all = append(all, netip.MustParseAddr(a))
	}
	return all, d.err
}

// TestResolve follows a name whose addresses change. Requests under way on an
// address that is gone come to their end.
func TestResolve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names dns
		names.set(nil, "192.0.2.1", "192.0.2.2", "192.0.2.1", "::ffff:192.0.2.2")
		finish := make(chan bool)
		c := newClusterWith(t, 3, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			http.NewResponseController(w).Flush()
			if r.Header.Get("Slow") != "" {
				<-finish
			}
			fmt.Fprint(w, "end")
		}, func(o *Options) {
			dial := o.Dial
			o.URLs = []*url.URL{{Scheme: "http", Host: "backends.example:8080"}, {Scheme: "http", Host: "192.0.2.100:8080"}}
			o.Resolve, o.Lookup = 30*time.Second, names.lookup
			o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				name := map[string]string{"192.0.2.1:8080": "b0", "192.0.2.2:8080": "b1", "192.0.2.3:8080": "b0", "192.0.2.100:8080": "b2"}[address]
				return dial(ctx, network, name+":1")
			}
		})
		addresses := func() string {
			var all []string
			for _, b := range *c.pool.set.Load() {
				all = append(all, b.address)
			}
			return strings.Join(all, " ")
		}
		synctest.Wait()
		if got := addresses(); got != "192.0.2.1:8080 192.0.2.2:8080 192.0.2.100:8080" {
			t.Fatal(got)
		}
		var seen []string
		for range 3 {
			seen = append(seen, c.get())
		}
		if slices.Sort(seen); strings.Join(seen, " ") != "b0 b1 b2" {
			t.Errorf("answers from %v", seen)
		}
		old := (*c.pool.set.Load())[1]
		r, _ := http.NewRequest(http.MethodGet, "http://front.example/", nil)
		r.Header.Set("Slow", "yes")
		var slow *http.Response
		for slow == nil || slow.Header.Get("Backend") != "b1" { // the one whose address goes
			var err error
			if slow != nil {
				finish <- true
				slow.Body.Close()
			}
			if slow, err = c.pool.RoundTrip(r); err != nil {
				t.Fatal(err)
			}
		}
		names.set(nil, "192.0.2.3", "192.0.2.1")
		time.Sleep(31 * time.Second)
		if got := addresses(); got != "192.0.2.1:8080 192.0.2.3:8080 192.0.2.100:8080" {
			t.Fatal(got)
		}
		if got := c.log.String(); !strings.Contains(got, `msg="backend is gone from DNS" pool=test backend="backends.example:8080 at 192.0.2.2:8080"`) {
			t.Errorf("log: %s", got)
		}
		finish <- true
		if body, err := io.ReadAll(slow.Body); string(body) != "end" || err != nil {
			t.Errorf("a request under way: %q, %v", body, err)
		}
		slow.Body.Close()
		if old.underway.Load() != 0 {
			t.Error("it is still counted")
		}
		names.set(errors.New("no such host"))
		time.Sleep(time.Minute)
		names.set(nil)
		time.Sleep(time.Minute)
		if got := addresses(); got != "192.0.2.1:8080 192.0.2.3:8080 192.0.2.100:8080" {
			t.Errorf("without answers: %s", got)
		}
		if got := strings.Count(c.log.String(), "looking a backend up failed; keeping what is known"); got != 1 {
			t.Errorf("logged %d times: %s", got, c.log.String())
		}
		names.set(nil, "192.0.2.1")
		time.Sleep(31 * time.Second)
		if got := addresses(); got != "192.0.2.1:8080 192.0.2.100:8080" || !strings.Contains(c.log.String(), "looking a backend up works again") {
			t.Errorf("%s; log: %s", got, c.log.String())
		}
	})
}

// TestTooManyAddresses are not used.
func TestTooManyAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names dns
		var many []string
		for i := range maxAddresses + 1 {
			many = append(many, fmt.Sprint("192.0.2.", i))
		}
		names.set(nil, many...)
		c := newClusterWith(t, 1, nil, func(o *Options) { o.Resolve, o.Lookup = time.Second, names.lookup })
		synctest.Wait()
		if set := *c.pool.set.Load(); len(set) != 1 || set[0].address != "b0:80" || !strings.Contains(c.log.String(), "the name has 65 addresses; the most is 64") {
			t.Errorf("%d backends; log: %s", len(set), c.log.String())
		}
		c.expect("b0")
	})
}

// TestChecksEndWithTheirBackend: a backend that is gone is not checked any more.
func TestChecksEndWithTheirBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names dns
		names.set(nil, "192.0.2.1")
		var mu sync.Mutex
		dialled := map[string]int{}
		c := newClusterWith(t, 1, nil, func(o *Options) {
			dial := o.Dial
			o.Resolve, o.Lookup, o.Health, o.MaxIdleConnections = time.Minute, names.lookup, quickHealth, 0
			o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				mu.Lock()
				dialled[address]++
				mu.Unlock()
				return dial(ctx, network, "b0:1")
			}
		})
		time.Sleep(61 * time.Second)
		names.set(nil, "192.0.2.2")
		time.Sleep(time.Minute)
		mu.Lock()
		before := dialled["192.0.2.1:80"]
		mu.Unlock()
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if before == 0 || dialled["192.0.2.1:80"] != before || dialled["192.0.2.2:80"] < 5 {
			t.Errorf("checks: %v, of the one that is gone %d before", dialled, before)
		}
		c.pool.Close()
	})
}
