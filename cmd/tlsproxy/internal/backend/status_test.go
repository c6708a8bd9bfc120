package backend

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestStatus counts what happens to the backends of a pool.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, nil)
		c.listeners["b0"].SetDown(true)
		c.expect("b1", "b1", "b1")
		conn, err := c.pool.Dial(t.Context(), "192.0.2.1:1")
		if err != nil {
			t.Fatal(err)
		}
		got := c.pool.Status()
		want := []Status{
			{URL: "http://b0", Address: "b0:80", Healthy: true, Ejected: got[0].Ejected, Failures: 2},
			{URL: "http://b1", Address: "b1:80", Healthy: true, Underway: 1, Served: 4, Retries: 2},
		}
		for i := range want {
			if got[i] != want[i] || got[i].Up() != (i == 1) {
				t.Errorf("%+v, up %v, want %+v", got[i], got[i].Up(), want[i])
			}
		}
		if left := time.Until(got[0].Ejected); left <= 0 || left > time.Second {
			t.Errorf("ejected for another %v", left)
		}
		conn.Close()
		if n := c.pool.Latency().Count; n != 3 {
			t.Errorf("%d latencies, want one of each answer", n)
		}
	})
}

// TestCloseWithRequestsUnderway: their connections end with them.
func TestCloseWithRequestsUnderway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, nil)
		r, _ := newRequest()
		response, err := c.pool.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		c.pool.Close()
		response.Body.Close()
		synctest.Wait()
		dials := c.dials.Load()
		c.get()
		if c.dials.Load() != dials+1 {
			t.Error("a connection was kept by a pool that is closed")
		}
	})
}
