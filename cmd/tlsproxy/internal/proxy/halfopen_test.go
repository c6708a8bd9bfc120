//go:build unix && !race

package proxy

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

const (
	// halfOpen is how many clients say nothing, or half a word, at once.
	halfOpen = 10_000
	// halfOpenCost is what one may cost in this process, in bytes, the client's end of
	// its connection included, which is here too. docs/limits.md states it.
	halfOpenCost = 6 << 10
	// stalledCost is the same for one that goes silent once its ClientHello was answered.
	stalledCost = 48 << 10
)

// crowded leaves room for n clients of one source, and time.
func crowded(n int, handshake time.Duration) func(*config.Config) {
	return func(c *config.Config) {
		c.Limits.Connections, c.Limits.ConnectionsPerSource, c.Limits.Handshakes, c.Limits.HandshakesPerSource = n, n, n, n
		c.Timeouts.Handshake = config.Duration(handshake)
	}
}

// affordable is how many of n connections, of two descriptors each, the process may
// have; fewer than a thousand would show nothing.
func affordable(t *testing.T, n int) int {
	t.Helper()
	const spare, least = 512, 1000
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if n = int(min(uint64(n), (uint64(limit.Cur)-min(spare, uint64(limit.Cur)))/2)); n < least {
		t.Fatalf("the process may have %d descriptors, which is too few: ulimit -n %d", limit.Cur, 2*least+spare)
	}
	return n
}

// held is how much memory is in use for what is reachable, and for stacks.
func held() uint64 {
	runtime.GC()
	runtime.GC() // what the first made unreachable from pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// TestHalfOpenCost: a client that says nothing, or half a word, costs little memory;
// others are served meanwhile, and in the end nothing is left of either.
func TestHalfOpenCost(t *testing.T) {
	for name, word := range map[string]string{"silent": "", "half a ClientHello": "\x16\x03\x01\x40\x00" + strings.Repeat("x", 100)} {
		t.Run(name, func(t *testing.T) {
			n := affordable(t, halfOpen)
			r := newRig(t, crowded(n+10, 5*time.Minute), hello)
			good := func() {
				t.Helper()
				client := r.client(false)
				if status, body := r.get(client, "/"); status != 200 || body != "hello" {
					t.Errorf("%d %q", status, body)
				}
				client.CloseIdleConnections()
			}
			good() // what the first request makes is not theirs
			before := held()
			all := make([]*net.TCPConn, n)
			for i := range all {
				raw, err := r.dial(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				all[i] = raw.(*net.TCPConn)
				defer all[i].Close()
				io.WriteString(all[i], word)
			}
			r.awaitHeard(n, word != "")
			cost := (int64(held()) - int64(before)) / int64(n)
			t.Logf("%d clients cost %d bytes each", n, cost)
			if cost > halfOpenCost {
				t.Errorf("%d clients cost %d bytes each, more than %d", n, cost, halfOpenCost)
			}
			good()
			for _, c := range all {
				c.SetLinger(0) // no address is to wait for what may still come
				c.Close()
			}
			r.awaitHeard(0, false)
		})
	}
}

// TestStalledCost: a client that has had its ClientHello answered costs what a handshake
// does, for as long as a handshake may take.
func TestStalledCost(t *testing.T) {
	const n = 200
	r := newRig(t, crowded(n+10, 5*time.Minute), hello)
	stall := func() net.Conn {
		raw, err := r.dial(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		tls.Client(deaf{raw}, r.tlsConfig()).Handshake()
		if _, err := io.ReadFull(raw, make([]byte, 1)); err != nil { // it was answered
			t.Fatal(err)
		}
		return raw
	}
	stall().Close()
	before := held()
	for range n {
		defer stall().Close()
	}
	cost := (int64(held()) - int64(before)) / n
	t.Logf("%d clients cost %d bytes each", n, cost)
	if cost > stalledCost {
		t.Errorf("%d clients cost %d bytes each, more than %d", n, cost, stalledCost)
	}
}

// awaitHeard waits until n connections are in their handshake and have, if so,
// received something.
func (r *rig) awaitHeard(n int, received bool) {
	for {
		all := 0
		for _, c := range r.server.connections() {
			if !c.established.Load() && (c.received.Load() || !received) {
				all++
			}
		}
		if all == n && r.server.Stats().Handshaking == n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestHalfOpenClients: ten thousand clients that say nothing have the time of a
// handshake and no more, and one that says something is served beside them.
func TestHalfOpenClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMemRig(t, crowded(halfOpen+1, 10*time.Second), hello)
		ends := make(chan time.Time, halfOpen)
		start := time.Now()
		for range halfOpen {
			c, err := r.dial(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				c.Read(make([]byte, 1))
				ends <- time.Now()
				c.Close()
			}()
		}
		synctest.Wait()
		if st := r.server.Stats(); st.Handshaking != halfOpen {
			t.Errorf("%+v", st)
		}
		if status, body := r.get(r.client(true), "/"); status != 200 || body != "hello" {
			t.Errorf("%d %q", status, body)
		}
		for range halfOpen {
			if d := (<-ends).Sub(start); d != 10*time.Second {
				t.Fatalf("a silent client was cut after %v", d)
			}
		}
		synctest.Wait()
		if st := r.server.Stats(); st.Failed != halfOpen || st.Open != 1 {
			t.Errorf("%+v", st)
		}
	})
}
