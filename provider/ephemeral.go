package provider

import (
	"crypto/ecdh"
	"crypto/rand"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// ephemeralStock is how many ephemeral X25519 keys are made ahead, and ephemeralGroup is
// how many of them have to be gone for as many to be made: few, since who has one
// processor only waits for all of these at worst, and not one, since it costs a little to have
// them made.
const (
	ephemeralStock = 32
	ephemeralGroup = 4
)

// ephemerals holds X25519 key pairs for the server's side of exchanges on the CPU.
// Making one is two fifths of such an exchange, and all of it that does not depend on the
// client: made ahead, while a server that has little to do waits for its clients, it is no
// part of what they wait for. A busy server does the same work, in another order.
//
// Each key is used once. The stock begins with the first exchange that asks; the
// goroutine that fills it ends when it is full.
type ephemerals struct {
	busy *atomic.Int64 // counts in who makes a key; nil: nobody asks

	mu     sync.Mutex
	stock  []ephemeral
	making bool
	closed bool
	maker  sync.WaitGroup
}

// An ephemeral is a key and how long it took to make, which whoever uses it saves.
type ephemeral struct {
	key  *ecdh.PrivateKey
	took time.Duration
}

// take returns a key, or none: the caller makes one then.
func (s *ephemerals) take() (ephemeral, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ephemeral{}, false
	}
	var e ephemeral
	if n := len(s.stock); n > 0 {
		e, s.stock[n-1] = s.stock[n-1], e
		s.stock = s.stock[:n-1]
	}
	if len(s.stock) <= ephemeralStock-ephemeralGroup && !s.making {
		s.making = true
		s.maker.Go(s.fill)
	}
	return e, e.key != nil
}

func (s *ephemerals) fill() {
	if s.busy != nil {
		s.busy.Add(1)
		defer s.busy.Add(-1)
	}
	for s.lacking() {
		start := time.Now()
		key, err := ecdh.X25519().GenerateKey(rand.Reader)
		took := time.Since(start)
		s.mu.Lock()
		if err != nil { // in FIPS 140-only mode; whoever makes one himself reports it
			s.closed = true
		} else if !s.closed {
			s.stock = append(s.stock, ephemeral{key, took})
		}
		s.mu.Unlock()
		runtime.Gosched() // handshakes go first
	}
}

// lacking says whether the stock is to have a further key; if not, nobody makes any.
func (s *ephemerals) lacking() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.making = !s.closed && len(s.stock) < ephemeralStock
	return s.making
}

// close drops the stock and waits for who is filling it: for as long as one key takes.
func (s *ephemerals) close() {
	s.mu.Lock()
	s.closed = true
	clear(s.stock)
	s.stock = nil
	s.mu.Unlock()
	s.maker.Wait()
}
