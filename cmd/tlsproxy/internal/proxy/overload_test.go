package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

// busyRig is a rig for a synctest bubble in which the signature of each handshake takes
// a time, and keeps a turn for as long.
func busyRig(t *testing.T, signing time.Duration, change func(*config.Config)) *rig {
	t.Helper()
	r := newMemRig(t, change, hello)
	r.options.Sign = func(c *tls.Certificate, _ func(Signature)) *tls.Certificate {
		time.Sleep(signing)
		return c
	}
	r.server.Update(r.options)
	return r
}

// offer makes a handshake with an X25519 share; it returns how long that took, and why
// it failed.
func (r *rig) offer() (time.Duration, error) {
	start := time.Now()
	raw, err := r.dial(context.Background())
	if err != nil {
		r.t.Error(err)
		return 0, err
	}
	defer raw.Close()
	err = tls.Client(raw, r.tlsConfig(tls.X25519)).Handshake()
	return time.Since(start), err
}

// TestOverload: at twice as many handshakes as can be computed, about as many as can be
// are, none of them much later than it may wait for its turn; the others are told at once
// or once their wait is over. Few of those that are shed have had a goroutine, and
// requests over a connection that is there are answered as if there were none of them.
func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			atOnce, signing, wait = 2, 100 * time.Millisecond, 250 * time.Millisecond
			capacity              = float64(atOnce) / float64(signing)
			lasting               = 20 * time.Second
		)
		r := busyRig(t, signing, func(c *config.Config) {
			c.Limits.KeyExchanges, c.Limits.KeyExchangeWait = atOnce, config.Duration(wait)
		})
		old := r.client(true, tls.X25519)
		r.get(old, "/")
		var mu sync.Mutex
		var done, shed, atAccept, late int
		var offered sync.WaitGroup
		handshake := func() {
			took, err := r.offer()
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				done++
			case took == 0:
				shed++
				atAccept++
			default:
				shed++
			}
			if most := wait + signing; took > most || err != nil && took > wait {
				late++
			}
		}
		start := time.Now()
		var most int
		for time.Since(start) < lasting {
			offered.Go(handshake)
			time.Sleep(signing / atOnce / 2)
			before := time.Now()
			if status, body := r.get(old, "/"); status != 200 || body != "hello" || time.Since(before) != 0 {
				t.Fatalf("%d %q after %v", status, body, time.Since(before))
			}
			most = max(most, r.server.Stats().Handshaking)
		}
		offered.Wait()
		could := capacity * float64(lasting)
		t.Logf("of %.0f handshakes, half of which can be, %d were, %d were shed at accept and %d later; %d at most were under way", 2*could, done, atAccept, shed-atAccept, most)
		if f := float64(done); f < .95*could || f > 1.05*could {
			t.Errorf("%d handshakes, %.0f can be", done, could)
		}
		if late > 0 {
			t.Errorf("%d came to an end too late", late)
		}
		if f := float64(atAccept); f < .75*float64(shed) {
			t.Errorf("%d of %d shed connections had a goroutine", shed-atAccept, shed)
		}
		if bound := capacity*float64(wait) + 2*atOnce; float64(most) > bound {
			t.Errorf("%d handshakes at once, want %v at most", most, bound)
		}
		if st := r.server.Stats(); st.Shed != uint64(shed) || st.Failed != 0 {
			t.Errorf("%+v, of which %d were shed", st, shed)
		}
		if line := r.log.wait("connection shed"); !strings.Contains(line, "limit=limits.key_exchanges value=2") {
			t.Error(line)
		}
		r.checkTurns(t)
	})
}

// checkTurns: nobody has a turn, and nobody waits for one.
func (r *rig) checkTurns(t *testing.T) {
	t.Helper()
	synctest.Wait()
	turns := r.server.live.Load().turns
	turns.mu.Lock()
	defer turns.mu.Unlock()
	if turns.taken != 0 || len(turns.waiting) != 0 {
		t.Errorf("%d turns are taken, %d waited for", turns.taken, len(turns.waiting))
	}
}

// TestTurnWhileTheClientIsSilent: clients that do not answer keep no turn, and others
// are served; those that go on are not held up by those that wait.
func TestTurnWhileTheClientIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := busyRig(t, time.Second, func(c *config.Config) { c.Limits.KeyExchanges, c.Limits.KeyExchangeWait = 1, minute })
		first := make(chan bool)
		go func() {
			raw, _ := r.dial(context.Background())
			defer raw.Close()
			tls.Client(slowly{raw, 5 * time.Second}, r.tlsConfig(tls.X25519)).Handshake()
			first <- true
		}()
		time.Sleep(time.Millisecond)
		for i := range 3 {
			if took, err := r.offer(); err != nil || took > 2*time.Second {
				t.Errorf("handshake %d: %v after %v", i, err, took)
			}
		}
		<-first
		r.checkTurns(t)
		if st := r.server.Stats(); st.Handshakes[tls.X25519] != 4 {
			t.Errorf("%+v", st)
		}
	})
}

// slowly is a client's connection that takes its time to answer.
type slowly struct {
	net.Conn
	time.Duration
}

func (s slowly) Write(b []byte) (int, error) {
	if b[0] != 22 { // not the ClientHello
		time.Sleep(s.Duration)
	}
	return s.Conn.Write(b)
}

// TestTurnOrder: turns come in the order in which they were asked for, and end when
// their handshake does, however that is.
func TestTurnOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &turns{most: 1, wait: time.Second}
		var mu sync.Mutex
		var order []int
		note := func(i int) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, i)
		}
		var all sync.WaitGroup
		ended, end := context.WithCancel(context.Background())
		end()
		for i := range 6 {
			ctx := context.Background()
			if i == 2 {
				ctx = ended
			}
			all.Go(func() {
				turn := turn{of: turns}
				defer turn.end()
				if !turn.take(ctx) {
					note(-i)
					return
				}
				note(i)
				time.Sleep(300 * time.Millisecond)
				turn.pause()
				turn.resume()
			})
			synctest.Wait()
		}
		all.Wait()
		// 2 is not waited for, and 5 has waited for a second before 4's turn is over.
		want := []int{0, -2, 1, 3, 4, -5}
		if len(order) != len(want) {
			t.Fatalf("%v", order)
		}
		for i := range want {
			if order[i] != want[i] {
				t.Fatalf("%v, want %v", order, want)
			}
		}
		if turns.taken != 0 || len(turns.waiting) != 0 {
			t.Errorf("%d taken, %d waiting", turns.taken, len(turns.waiting))
		}
		if held := time.Duration(turns.held.Value()); held != 300*time.Millisecond {
			t.Errorf("a turn takes %v", held)
		}
	})
}

// TestTurnsByDefault: as many as keep the processors busy, and those that wait for GPUs'
// batches beside them.
func TestTurnsByDefault(t *testing.T) {
	processors := turnsPerProcessor * runtime.GOMAXPROCS(0)
	for _, test := range []struct {
		gpus   int
		change func(*config.Config)
		want   int
	}{
		{0, func(c *config.Config) {}, processors},
		{0, func(c *config.Config) { c.Provider.Engine = config.EngineAuto }, processors}, // on a machine without
		{1, func(c *config.Config) {}, processors + 2*1024},
		{3, func(c *config.Config) { c.Provider.GPU.Capacity = 100 }, processors + 3*2*100},
		{3, func(c *config.Config) { c.Limits.KeyExchanges = 5 }, 5},
	} {
		c := config.Default()
		test.change(c)
		if got := newTurns(c, test.gpus).most; got != test.want {
			t.Errorf("%d GPUs, %+v: %d turns, want %d", test.gpus, c.Provider, got, test.want)
		}
	}
}

// TestDeafClients: a client that does not take what it is answered keeps no turn from
// others, however long the answer is, as with a list of many authorities.
func TestDeafClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMemRig(t, func(c *config.Config) { c.Limits.KeyExchanges = 1 }, hello)
		deaf, err := r.dial(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer deaf.Close()
		if _, err := deaf.Write(clientHello(t, "front.example")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the answer waits to be taken
		if took, err := r.offer(); err != nil || took != 0 {
			t.Errorf("beside it a handshake came to %v after %v", err, took)
		}
		deaf.Close()
		r.checkTurns(t)
	})
}
