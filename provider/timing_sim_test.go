//go:build sim && !nogpu

package provider

import (
	"context"
	"crypto"
	"crypto/rand"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
)

// A timedCall is a call with a Timing, and how long it took in all.
type timedCall struct {
	timing *Timing
	took   time.Duration
	done   chan error
}

// startTimed begins an exchange with a Timing.
func startTimed(ctx context.Context, p *Provider, share []byte) *timedCall {
	c := &timedCall{done: make(chan error, 1)}
	ctx, c.timing = WithTiming(ctx)
	go func() {
		began := time.Now()
		_, _, err := p.ServerExchange(ctx, sets[0], share)
		c.took = time.Since(began)
		c.done <- err
	}()
	return c
}

// A call whose batch has to wait for another's tells how long, and how long its own took.
func TestTiming(t *testing.T) {
	sim, cfg := simulated(t)
	p := openTest(t, cfg)
	share := ownClient(t, sets[0]).share
	inFlight := func(n int) func() bool {
		return func() bool { return p.Stats().GPU.Devices[0].InFlight == n }
	}
	sim.HangLaunch(0, 0)
	first := startTimed(t.Context(), p, share)
	await(t, "the first batch hangs", func() bool { return sim.Hanging(0) })
	running := time.Now()
	second := startTimed(t.Context(), p, share)
	await(t, "the second call waits", inFlight(2))
	waiting := time.Now()
	time.Sleep(time.Millisecond)
	released := time.Now()
	sim.ReleaseHang(0)
	for name, c := range map[string]*timedCall{"first": first, "second": second} {
		if err := <-c.done; err != nil {
			t.Fatal(err)
		}
		if c.timing.Batch <= 0 || c.timing.Queue < 0 || c.timing.Queue+c.timing.Batch > c.took {
			t.Errorf("the %s call took %v: %+v", name, c.took, c.timing)
		}
	}
	if least := released.Sub(running); first.timing.Batch < least {
		t.Errorf("the first batch took %v, at least %v of which it hung", first.timing.Batch, least)
	}
	if least := released.Sub(waiting); second.timing.Queue < least {
		t.Errorf("the second call was queued for %v, at least %v of which the first batch hung", second.timing.Queue, least)
	}
}

// A call that a device fails has been in the queue in vain, and one that the CPU
// carries out at once in none.
func TestTimingWithoutABatch(t *testing.T) {
	sim, cfg := simulated(t)
	p := openTest(t, cfg)
	share := ownClient(t, sets[0]).share
	sim.FaultLaunch(0, 0, 1, int(driver.ErrIllegalAddress))
	failed := startTimed(t.Context(), p, share)
	if err := <-failed.done; err != nil {
		t.Fatal(err)
	}
	if failed.timing.Batch != 0 || failed.timing.Queue <= 0 || failed.timing.Queue > failed.took {
		t.Errorf("a call that took %v and that a device failed: %+v", failed.took, failed.timing)
	}
	cpu := startTimed(t.Context(), openTest(t, Config{KeyPoolSize: -1}), share)
	if err := <-cpu.done; err != nil {
		t.Fatal(err)
	}
	if *cpu.timing != (Timing{}) {
		t.Errorf("a call on the CPU: %+v", cpu.timing)
	}
}

// A signature by a device tells how long it waited and how long its batch took; one that
// a device fails has waited in vain, and one by the CPU at once says nothing.
func TestSignTimed(t *testing.T) {
	sim, cfg := simulatedSigner(t)
	s := newSigner(t, openTest(t, cfg), p256Key(t))
	timed := func(s *Signer) (Timing, time.Duration) {
		t.Helper()
		began := time.Now()
		_, timing, err := s.SignTimed(rand.Reader, random(digestSize), crypto.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		return timing, time.Since(began)
	}
	if timing, took := timed(s); timing.Batch <= 0 || timing.Queue < 0 || timing.Queue+timing.Batch > took {
		t.Errorf("a signature that took %v: %+v", took, timing)
	}
	sim.FaultLaunch(0, 0, 1, int(driver.ErrIllegalAddress))
	if timing, took := timed(s); timing.Batch != 0 || timing.Queue <= 0 || timing.Queue > took {
		t.Errorf("a signature that took %v and that a device failed: %+v", took, timing)
	}
	cpu, err := openTest(t, Config{KeyPoolSize: -1}).Signer(p256Key(t))
	if err != nil {
		t.Fatal(err)
	}
	if timing, _ := timed(cpu); timing != (Timing{}) {
		t.Errorf("a signature on the CPU: %+v", timing)
	}
}
