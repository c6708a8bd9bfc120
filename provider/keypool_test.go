package provider

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"testing"

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
	k := newKeyPool(ctruprime.Scheme653(), 4, nil)
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

// A failing engine's error reaches those who wait; the pool goes on later.
func TestKeyPoolFailure(t *testing.T) {
	g := newGate()
	p, _ := openWith(t, Config{KeyPoolSize: 4}, slog.New(slog.DiscardHandler), g.before)
	s := ctruprime.Scheme653()
	result := make(chan error)
	go func() {
		_, err := p.GenerateKey(context.Background(), s)
		result <- err
	}()
	<-g.sizes
	g.release <- errors.New("device lost")
	if err := <-result; !errors.Is(err, errEnginePanic) {
		t.Errorf("%v, want errEnginePanic", err)
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
	if err := <-result; err == nil {
		t.Error("a key from a closed Provider")
	}
}
