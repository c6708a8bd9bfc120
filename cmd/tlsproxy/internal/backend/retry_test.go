package backend

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestRepeat: a request that may be repeated goes to another backend when its
// own breaks off; others do not.
func TestRepeat(t *testing.T) {
	for _, protocol := range []Protocol{HTTP1, H2C} {
		for method, repeated := range map[string]bool{"GET": true, "HEAD": true, "OPTIONS": true, "TRACE": true, "PUT": true, "DELETE": true, "POST": false, "PATCH": false} {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var seen []string
				c := newClusterWith(t, 3, func(w http.ResponseWriter, r *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					seen = append(seen, w.Header().Get("Backend"))
					if len(seen) < 3 {
						panic(http.ErrAbortHandler)
					}
				}, func(o *Options) { o.Protocol = protocol })
				r, _ := http.NewRequest(method, "http://front.example/", nil)
				response, err := c.pool.RoundTrip(r)
				if err == nil {
					response.Body.Close()
				}
				mu.Lock()
				defer mu.Unlock()
				if got := strings.Join(seen, " "); repeated && (err != nil || got != "b0 b1 b2") || !repeated && (err == nil || got != "b0") {
					t.Errorf("%v %s: %v after %s", protocol, method, err, got)
				}
			})
		}
	}
}

// TestNoRepeatOfWaiting: a request whose time was up is not begun again.
func TestNoRepeatOfWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen atomic.Int64
		c := newCluster(t, 2, func(w http.ResponseWriter, r *http.Request) {
			seen.Add(1)
			<-r.Context().Done()
		})
		if got := c.get(); !strings.Contains(got, "timeout awaiting response headers") || seen.Load() != 1 {
			t.Errorf("%s after %d", got, seen.Load())
		}
	})
}

// TestRetriesAreBounded: by their number for one request, and by a share of all.
func TestRetriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen atomic.Int64
		c := newClusterWith(t, 8, func(w http.ResponseWriter, r *http.Request) {
			seen.Add(1)
			panic(http.ErrAbortHandler)
		}, func(o *Options) { o.Retries, o.EjectAfter = 4, 1000 })
		if c.get(); seen.Load() != 5 {
			t.Errorf("one request was sent %d times with 4 retries", seen.Load())
		}
		for range 999 {
			c.get()
		}
		if n, most := seen.Load(), int64(1000+1000/repeatPrice+budgetStart/repeatPrice); n > most || n < 1000+1000/repeatPrice {
			t.Errorf("1000 requests were sent %d times; the most is %d", n, most)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var seen atomic.Int64
		c := newClusterWith(t, 3, func(w http.ResponseWriter, r *http.Request) {
			seen.Add(1)
			panic(http.ErrAbortHandler)
		}, func(o *Options) { o.Retries = 0 })
		if c.get(); seen.Load() != 1 {
			t.Errorf("sent %d times without retries", seen.Load())
		}
		for _, l := range c.listeners {
			l.SetDown(true)
		}
		c.get()
		failures := 0
		for _, b := range *c.pool.set.Load() {
			failures += b.failures
		}
		if failures != 2 {
			t.Errorf("%d backends were tried by two requests without retries", failures)
		}
	})
}

// TestUnavailable: where no backend can be reached the error says when to come
// again.
func TestUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, nil)
		for _, l := range c.listeners {
			l.SetDown(true)
		}
		r, _ := http.NewRequest(http.MethodGet, "http://front.example/", nil)
		_, err := c.pool.RoundTrip(r)
		var unavailable *UnavailableError
		if !errors.As(err, &unavailable) || unavailable.RetryAfter != time.Second {
			t.Errorf("%#v", err)
		}
	})
}
