package backend

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var quickHealth = Health{Check: CheckHTTP, Path: "/up?x=1", Interval: 10 * time.Second, Timeout: time.Second, HealthyAfter: 2, UnhealthyAfter: 3}

// TestHealthChecks takes a backend out after as many failed checks as asked for,
// and back after as many good ones.
func TestHealthChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sick atomic.Bool
		c := newClusterWith(t, 2, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/up" {
				return
			}
			if r.Host != "health.example" || r.URL.RawQuery != "x=1" || r.UserAgent() != "tlsproxy-health" || r.Method != "GET" {
				t.Errorf("a check asks %s %s %s %v", r.Method, r.Host, r.RequestURI, r.Header)
			}
			if sick.Load() && w.Header().Get("Backend") == "b0" {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}, func(o *Options) { o.Health = quickHealth; o.Health.Host = "health.example" })
		time.Sleep(time.Second) // between checks
		c.expect("b0", "b1", "b0", "b1")
		sick.Store(true)
		time.Sleep(20 * time.Second)
		c.expect("b0", "b1") // two checks have failed
		time.Sleep(10 * time.Second)
		c.expect("b1", "b1", "b1")
		if got := c.log.String(); !strings.Contains(got, `msg="backend is unhealthy" backend=b0 checks=3 err="it answered 503"`) {
			t.Errorf("log: %s", got)
		}
		sick.Store(false)
		time.Sleep(10 * time.Second)
		c.expect("b1", "b1")
		time.Sleep(10 * time.Second)
		got := c.get() + c.get()
		if got != "b0b1" && got != "b1b0" {
			t.Errorf("after its recovery: %s", got)
		}
		if got := c.log.String(); !strings.Contains(got, `msg="backend is healthy" backend=b0 checks=2`) {
			t.Errorf("log: %s", got)
		}
	})
}

// TestFlappingChecks: checks count in a row only.
func TestFlappingChecks(t *testing.T) {
	b := &backend{log: newLog(io.Discard)}
	h := quickHealth
	for i := range 20 {
		var err error
		if i%3 != 0 {
			err = errors.New("sick")
		}
		if b.checked(err, &h); !b.fit() {
			t.Fatal("two failures in a row took it out")
		}
	}
}

// TestAllUnhealthy: nobody is asked, and the error says so.
func TestAllUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		c := newClusterWith(t, 2, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/up" {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			asked.Add(1)
		}, func(o *Options) { o.Health = quickHealth })
		time.Sleep(21 * time.Second)
		r, _ := http.NewRequest(http.MethodGet, "http://front.example/", nil)
		_, err := c.pool.RoundTrip(r)
		var unavailable *UnavailableError
		if !errors.As(err, &unavailable) || unavailable.RetryAfter != 10*time.Second || err.Error() != "pool test: no backend passes its health check" || asked.Load() != 0 {
			t.Errorf("%v; asked %d times", err, asked.Load())
		}
		if _, err := c.pool.Dial(t.Context(), "192.0.2.1:1"); !errors.As(err, &unavailable) {
			t.Errorf("Dial: %v", err)
		}
	})
}

// TestSilentCheck: a check that gets no answer in time has failed.
func TestSilentCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusterWith(t, 1, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			func(o *Options) { o.Health = quickHealth; o.Health.UnhealthyAfter = 1 })
		time.Sleep(1500 * time.Millisecond)
		if b := (*c.pool.set.Load())[0]; b.fit() {
			t.Error("it passed")
		}
		if got := c.log.String(); !strings.Contains(got, "context deadline exceeded") {
			t.Errorf("log: %s", got)
		}
	})
}

// TestConnectCheck needs no HTTP.
func TestConnectCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusterWith(t, 1, nil, func(o *Options) {
			o.URLs[0].Scheme, o.URLs[0].Host = "tcp", "b0:1"
			o.Health = quickHealth
			o.Health.Check, o.Health.UnhealthyAfter, o.Health.HealthyAfter = CheckConnect, 1, 1
		})
		b := (*c.pool.set.Load())[0]
		for _, down := range []bool{false, true, false} {
			c.listeners["b0"].SetDown(down)
			time.Sleep(11 * time.Second)
			if b.fit() == down {
				t.Errorf("down %v, fit %v", down, b.fit())
			}
		}
	})
}

// TestGRPCCheck speaks gRPC's health checking protocol.
func TestGRPCCheck(t *testing.T) {
	answers := map[string]struct {
		body, status string
		fit          bool
	}{
		"serving":     {"\x00\x00\x00\x00\x02\x08\x01", "0", true},
		"not serving": {"\x00\x00\x00\x00\x02\x08\x02", "0", false},
		"unknown":     {"\x00\x00\x00\x00\x00", "0", false},
		"no service":  {"", "12", false},
		"no status":   {"\x00\x00\x00\x00\x02\x08\x01", "", false},
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClusterWith(t, 1, func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					if r.Method != "POST" || r.URL.Path != "/grpc.health.v1.Health/Check" || string(body) != "\x00\x00\x00\x00\x00" ||
						r.Header.Get("Content-Type") != "application/grpc" || r.Header.Get("Te") != "trailers" || r.ProtoMajor != 2 {
						t.Errorf("%s %s %s %q %v", r.Proto, r.Method, r.URL, body, r.Header)
					}
					w.Header().Set("Content-Type", "application/grpc")
					if answer.body == "" { // trailers alone
						w.Header().Set("Grpc-Status", answer.status)
						return
					}
					io.WriteString(w, answer.body)
					if answer.status != "" {
						w.Header().Set(http.TrailerPrefix+"Grpc-Status", answer.status)
					}
				}, func(o *Options) {
					o.Protocol, o.Health = H2C, quickHealth
					o.Health.Check, o.Health.UnhealthyAfter = CheckGRPC, 1
				})
				time.Sleep(time.Second)
				if got := (*c.pool.set.Load())[0].fit(); got != answer.fit {
					t.Errorf("fit %v; log: %s", got, c.log.String())
				}
			})
		})
	}
}

// TestDial balances connections, tries another backend, and counts them until
// they are closed.
func TestDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusterWith(t, 2, nil, func(o *Options) {
			for _, u := range o.URLs {
				u.Scheme, u.Host = "tcp", u.Host+":1"
			}
			o.Balance = LeastConnections
		})
		var conns []net.Conn
		for range 4 {
			conn, err := c.pool.Dial(t.Context(), "192.0.2.1:1")
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
		}
		set := *c.pool.set.Load()
		for _, b := range set {
			if got := b.underway.Load(); got != 2 {
				t.Errorf("%s has %d of 4 connections", b.name, got)
			}
		}
		c.listeners["b0"].SetDown(true)
		for range 3 {
			conn, err := c.pool.Dial(t.Context(), "192.0.2.1:1")
			if err != nil || conn.Backend() != "b1:1" {
				t.Fatal(err)
			}
			conns = append(conns, conn)
		}
		if !strings.Contains(c.log.String(), "backend ejected") {
			t.Errorf("log: %s", c.log.String())
		}
		for _, conn := range conns {
			conn.Close()
			conn.Close()
		}
		for _, b := range set {
			if got := b.underway.Load(); got != 0 {
				t.Errorf("%s has %d connections in the end", b.name, got)
			}
		}
		c.listeners["b1"].SetDown(true)
		_, err := c.pool.Dial(t.Context(), "192.0.2.1:1")
		var unavailable *UnavailableError
		if !errors.As(err, &unavailable) {
			t.Errorf("%v", err)
		}
	})
}
