package provider

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// gate lets a test hold an engine's batches.
type gate struct {
	sizes   chan int // the size of each batch as it arrives
	release chan error
}

func newGate() *gate { return &gate{make(chan int), make(chan error)} }

// before fails the batch where the test releases it with an error.
func (g *gate) before(ctx context.Context, batch []request) {
	select {
	case g.sizes <- len(batch):
	case <-ctx.Done():
		return
	}
	select {
	case err := <-g.release:
		if err != nil {
			panic(err)
		}
	case <-ctx.Done():
	}
}

func TestKeyPoolNeverTwice(t *testing.T) {
	p := openTest(t, Config{KeyPoolSize: 16})
	s := ctruprime.Scheme653()
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	const callers, each = 8, 40
	for range callers {
		wg.Go(func() {
			for range each {
				sk, err := p.GenerateKey(context.Background(), s)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if seen[string(sk)] {
					t.Error("a key was handed out twice")
				}
				seen[string(sk)] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	st := p.Stats().KeyPools[0]
	if st.Scheme != s.Name() || st.HandedOut != callers*each || st.Level > st.Size || st.Size != 16 ||
		st.Generated < st.HandedOut+uint64(st.Level) {
		t.Errorf("%+v", st)
	}
}

// One caller waits: one key is made. More arrive meanwhile: they share the next
// group. Then the stock is filled to its size and no further.
func TestKeyPoolGroups(t *testing.T) {
	g := newGate()
	p, _ := openWith(t, Config{KeyPoolSize: 40}, slog.Default(), g.before)
	s := ctruprime.Scheme653()
	pool := p.pools[s]
	results := make(chan error, 8)
	take := func() {
		_, err := p.GenerateKey(context.Background(), s)
		results <- err
	}
	go take()
	if n := <-g.sizes; n != 1 {
		t.Fatalf("a group of %d for one caller", n)
	}
	for range 7 {
		go take()
	}
	for waiting := 0; waiting < 8; {
		pool.mu.Lock()
		waiting = len(pool.waiters)
		pool.mu.Unlock()
		runtime.Gosched()
	}
	g.release <- nil
	if n := <-g.sizes; n != 7 {
		t.Fatalf("a group of %d for seven callers", n)
	}
	g.release <- nil
	for range 8 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if n := <-g.sizes; n != ctruprime.MaxKeyGroup { // 32 is above the low water of 20: no second group
		t.Fatalf("a group of %d for the stock, want %d", n, ctruprime.MaxKeyGroup)
	}
	g.release <- nil
	for pool.level() != ctruprime.MaxKeyGroup {
		runtime.Gosched()
	}
	for range ctruprime.MaxKeyGroup - pool.lowWater() { // down to the mark: no refill
		if _, err := p.GenerateKey(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.GenerateKey(t.Context(), s); err != nil { // below it
		t.Fatal(err)
	}
	if n := <-g.sizes; n != 40-19 {
		t.Errorf("a refill of %d, want %d", n, 40-19)
	}
	g.release <- nil
}

// A caller whose context ends leaves; the key made for it goes into the stock.
func TestKeyPoolCancel(t *testing.T) {
	g := newGate()
	p, _ := openWith(t, Config{KeyPoolSize: 4}, slog.Default(), g.before)
	s := ctruprime.Scheme653()
	cause := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	result := make(chan error)
	go func() {
		_, err := p.GenerateKey(ctx, s)
		result <- err
	}()
	<-g.sizes
	cancel(cause)
	if err := <-result; !errors.Is(err, cause) {
		t.Fatalf("%v, want the context's cause", err)
	}
	g.release <- nil
	if n := <-g.sizes; n != 3 {
		t.Errorf("a refill of %d; the abandoned key should be in the stock of 4", n)
	}
	g.release <- nil
}

// A key delivered to a caller that is leaving is not lost either.
func TestKeyPoolAbandonAfterDelivery(t *testing.T) {
	k := newKeyPool(ctruprime.Scheme653(), 4, nil, nil)
	w := make(chan keyOrError, 1)
	w <- keyOrError{sk: []byte{1}}
	k.abandon(w)
	if len(k.stock) != 1 {
		t.Error("the key is not in the stock")
	}
	k.closed = true
	sk := []byte{1}
	w <- keyOrError{sk: sk}
	k.abandon(w)
	if len(k.stock) != 1 || sk[0] != 0 {
		t.Error("a closed pool kept a key, or did not wipe it")
	}
}

// A failing engine's error reaches those who wait; the pool goes on after a
// pause. The bubble's clock makes the pause.
func TestKeyPoolFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		p, _ := openWith(t, Config{KeyPoolSize: 4}, slog.New(slog.DiscardHandler), g.before)
		s := ctruprime.Scheme653()
		result := make(chan error)
		go func() {
			_, err := p.GenerateKey(context.Background(), s)
			result <- err
		}()
		<-g.sizes
		failed := time.Now()
		g.release <- errors.New("device lost")
		if err := <-result; !errors.Is(err, errEnginePanic) {
			t.Errorf("%v, want errEnginePanic", err)
		}
		if n := <-g.sizes; n != 4 || time.Since(failed) != refillPause {
			t.Errorf("a refill of %d after %v, want 4 after %v", n, time.Since(failed), refillPause)
		}
		g.release <- nil
		if _, err := p.GenerateKey(t.Context(), s); err != nil {
			t.Error(err)
		}
		p.Close()
	})
}

// Keys of a group in which the engine failed are wiped: those it had written
// before it failed too.
func TestKeyPoolWipesFailed(t *testing.T) {
	k := newKeyPool(ctruprime.Scheme653(), 4, nil, nil)
	var outs [][]byte
	k.serve = func(_ context.Context, batch []request) {
		for i := range batch {
			batch[i].out[0] = 1
			batch[i].err = errors.New("device lost")
			outs = append(outs, batch[i].out)
		}
	}
	if err := k.make(3); err == nil {
		t.Fatal("no error")
	}
	for _, out := range outs {
		if out[0] != 0 {
			t.Error("a failed key was not wiped")
		}
	}
	if len(k.stock) != 0 {
		t.Error("a failed key is in the stock")
	}
}

func TestKeyPoolClose(t *testing.T) {
	g := newGate()
	p, _ := openWith(t, Config{KeyPoolSize: 4}, slog.Default(), g.before)
	s := ctruprime.Scheme653()
	result := make(chan error)
	wait := func() {
		_, err := p.GenerateKey(context.Background(), s)
		result <- err
	}
	go wait()
	<-g.sizes
	g.release <- nil
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	<-g.sizes
	g.release <- nil
	pool := p.pools[s]
	for pool.level() != 4 {
		runtime.Gosched()
	}
	pool.mu.Lock()
	stock := append([][]byte(nil), pool.stock...)
	pool.mu.Unlock()
	for _, sk := range stock {
		if bytes.Equal(sk, make([]byte, len(sk))) {
			t.Fatal("an empty key in the stock")
		}
	}
	p.Close()
	for _, sk := range stock {
		if !bytes.Equal(sk, make([]byte, len(sk))) {
			t.Error("a key was not wiped")
		}
	}
}

// Callers that wait for a key when the Provider is closed are told so.
func TestKeyPoolCloseWhileWaiting(t *testing.T) {
	g := newGate()
	p, _ := openWith(t, Config{KeyPoolSize: 4}, slog.Default(), g.before)
	result := make(chan error)
	go func() {
		_, err := p.GenerateKey(context.Background(), ctruprime.Scheme1277())
		result <- err
	}()
	<-g.sizes
	go p.Close()
	if err := <-result; !errors.Is(err, ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
}

// FillKeyPool waits until the pool has nothing left to do, and no longer.
func TestFillKeyPool(t *testing.T) {
	s := ctruprime.Scheme653()
	level := func(p *Provider) int {
		for _, pool := range p.Stats().KeyPools {
			if pool.Scheme == s.Name() {
				return pool.Level
			}
		}
		return 0
	}
	p := openTest(t, Config{KeyPoolSize: 70})
	for range 2 { // filled, and full already
		if err := p.FillKeyPool(context.Background(), s); err != nil {
			t.Fatal(err)
		}
		if n := level(p); n < 70-ctruprime.MaxKeyGroup {
			t.Errorf("%d keys of 70", n)
		}
	}
	if err := openTest(t, Config{KeyPoolSize: -1}).FillKeyPool(context.Background(), s); err != nil {
		t.Errorf("without a pool: %v", err)
	}
	p.Close()
	if err := p.FillKeyPool(context.Background(), s); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestFillKeyPoolEnds with its context, and with the pool.
func TestFillKeyPoolEnds(t *testing.T) {
	s := ctruprime.Scheme653()
	g := newGate()
	p, _ := openWith(t, Config{KeyPoolSize: 4}, slog.Default(), g.before)
	ctx, cancel := context.WithCancel(context.Background())
	filled := make(chan error)
	go func() { filled <- p.FillKeyPool(ctx, s) }()
	<-g.sizes // the engine has the first group and keeps it
	cancel()
	if err := <-filled; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	go func() { filled <- p.FillKeyPool(context.Background(), s) }()
	for pool := p.pools[s]; ; runtime.Gosched() {
		pool.mu.Lock()
		n := len(pool.filling)
		pool.mu.Unlock()
		if n == 1 {
			break
		}
	}
	p.Close()
	if err := <-filled; !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
