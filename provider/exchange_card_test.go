//go:build (sim || gputest) && !nogpu

package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/gpu"
	"github.com/ctrutls/ctrutls/internal/bench/calls"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// Exchanges by a device are byte for byte the CPU's, for random keys and shares, and
// for those that are to be refused.
func TestCardExchanges(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 6))
	cfg := cardConfig(t)
	cfg.GPU.CheckEvery, cfg.GPU.MaxWait = -1, time.Hour // every result is the device's
	p := openTest(t, cfg)
	cpu := &cpuEngine{log: slog.New(slog.DiscardHandler)}
	for _, s := range cardSchemes(cfg) {
		for _, op := range []operation{opServerExchange, opClientFinish} {
			mine := exchangeRequests(t, rng, s, op, *cardCalls)
			reference := slices.Clone(mine)
			for i := range reference {
				reference[i].out = make([]byte, len(mine[i].out))
			}
			p.engine.serve(t.Context(), mine)
			cpu.serve(t.Context(), reference)
			refused := 0
			for i := range mine {
				var peer *PeerError
				if want := reference[i].err; want != nil {
					refused++
					if !errors.As(want, &peer) || mine[i].err == nil || mine[i].err.Error() != want.Error() {
						t.Fatalf("%s of %s, request %d: %v, the CPU says %v", op, s.Name(), i, mine[i].err, want)
					}
				} else if mine[i].err != nil || !mine[i].device || !bytes.Equal(mine[i].out, reference[i].out) {
					t.Fatalf("%s of %s, request %d: %v, made by a device: %v, equal: %v", op, s.Name(), i, mine[i].err, mine[i].device,
						bytes.Equal(mine[i].out, reference[i].out))
				}
			}
			t.Logf("%s of %s: %d requests, %d of them refused", op, s.Name(), len(mine), refused)
		}
	}
	if st := p.Stats().GPU; st.Mismatches != 0 || st.Faulted != 0 {
		t.Errorf("%+v", st)
	}
}

// exchangeRequests makes n random requests, one in eight of which a peer has spoilt.
func exchangeRequests(t *testing.T, rng *rand.Rand, s *ctruprime.Scheme, op operation, n int) []request {
	clients := make([]client, 32)
	for i := range clients {
		clients[i] = ownClient(t, s)
	}
	bytesOf := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	requests := make([]request, n)
	for i := range requests {
		c := clients[rng.IntN(len(clients))]
		r := &requests[i]
		*r = request{op: op, scheme: s, out: make([]byte, outSize(op, s))}
		u := bytesOf(x25519Size)
		switch rng.IntN(24) {
		case 0:
			clear(u) // of low order
		case 1:
			u = append([]byte{1}, make([]byte, x25519Size-1)...) // the same
		case 2:
			u = bytes.Repeat([]byte{0xff}, x25519Size) // not canonical, and good
		}
		if op == opClientFinish {
			r.x, r.own = c.x, c.sk
			r.peer = join(u, bytesOf(s.CiphertextSize())) // of nobody's making: implicit rejection
			if i%2 == 0 {
				ss := make([]byte, s.SharedKeySize())
				if err := s.EncapsulateBytes(r.peer[x25519Size:], ss, s.PublicKeyOf(c.sk), bytesOf(ctruprime.SeedSize)); err != nil {
					t.Fatal(err)
				}
			}
			continue
		}
		r.own = bytesOf(HybridEncapsulationSeedSize)
		r.peer = join(u, s.PublicKeyOf(c.sk))
		if rng.IntN(24) == 0 {
			r.peer[len(r.peer)-2], r.peer[len(r.peer)-3] = 0xff, 0xff // a coefficient that is too large
		}
	}
	return requests
}

// BenchmarkCardExchange has so many callers make servers' exchanges without a pause,
// by the GPU, by the CPU, and by whichever EngineAuto chooses. Latencies are the
// callers'.
func BenchmarkCardExchange(b *testing.B) {
	for _, engine := range []Engine{EngineGPU, EngineCPU, EngineAuto} {
		cfg := cardConfig(b)
		cfg.Engine = engine
		p, err := Open(cfg)
		if err != nil {
			b.Fatal(err)
		}
		s := cardSchemes(cfg)[len(cardSchemes(cfg))/2]
		share := ownClient(b, s).share
		for _, callers := range onCardElse([]int{1, 4, 16, 64, 256, 1024, 4096}, []int{1, 8}) {
			b.Run(fmt.Sprintf("%s/%s/%d", s.Name(), engine, callers), func(b *testing.B) {
				for range b.N {
					measureExchanges(b, p, callers, func(ctx context.Context) error {
						_, _, err := p.ServerExchange(ctx, s, share)
						return err
					})
				}
				b.ReportMetric(0, "ns/op")
			})
		}
		p.Close()
	}
}

// BenchmarkCardExchangePaced is the same at rates at which a server's exchanges arrive.
func BenchmarkCardExchangePaced(b *testing.B) {
	for _, engine := range []Engine{EngineGPU, EngineCPU, EngineAuto} {
		cfg := cardConfig(b)
		cfg.Engine = engine
		p, err := Open(cfg)
		if err != nil {
			b.Fatal(err)
		}
		s := cardSchemes(cfg)[len(cardSchemes(cfg))/2]
		share := ownClient(b, s).share
		for _, rate := range onCardElse([]int{2000, 10_000, 50_000}, []int{100}) {
			b.Run(fmt.Sprintf("%s/%s/%d", s.Name(), engine, rate), func(b *testing.B) {
				for range b.N {
					measurePaced(b, p, rate, *cardTime, func(ctx context.Context) error {
						_, _, err := p.ServerExchange(ctx, s, share)
						return err
					})
				}
				b.ReportMetric(0, "ns/op")
			})
		}
		p.Close()
	}
}

// measureExchanges reports rate, processor time and latency of calls that so many
// callers make, each with a context that can end, as a handshake's can.
func measureExchanges(b *testing.B, p *Provider, callers int, call func(context.Context) error) {
	before, cpu := p.Stats(), processorTime()
	r, err := calls.Run(b.Context(), callers, *cardTime, call)
	if err != nil {
		b.Error(err)
		return
	}
	used, n := processorTime()-cpu, float64(r.Calls)
	b.ReportMetric(n/r.Elapsed.Seconds(), "exchanges/s")
	b.ReportMetric(used.Seconds()*1e6/n, "cpu-us/op")
	b.ReportMetric(float64(r.P50.Nanoseconds())/1e3, "us-p50")
	b.ReportMetric(float64(r.P99.Nanoseconds())/1e3, "us-p99")
	if after := p.Stats(); after.GPU != nil {
		d, was := after.GPU.Devices[0], before.GPU.Devices[0]
		b.ReportMetric(float64(d.Rows-was.Rows)/float64(max(d.Batches-was.Batches, 1)), "batch")
		b.ReportMetric(100*float64(after.GPU.Served-before.GPU.Served)/n, "%by-gpu")
		b.ReportMetric(float64(after.GPU.Full-before.GPU.Full), "full")
	}
}

// BenchmarkCardExchangeModes reports how long a batch of servers' exchanges takes from
// its last submission to its results, in the ways that package gpu can run it, and
// how long one of the KEM alone: medians of rounds in which each has its turn. Beside
// that, what the batch costs the processor, on average.
func BenchmarkCardExchangeModes(b *testing.B) {
	const rounds = 200
	cfg := cardConfig(b)
	schemes := cardSchemes(cfg)
	s := schemes[len(schemes)/2]
	n, err := degree(s)
	if err != nil {
		b.Fatal(err)
	}
	modes := []struct {
		name                     string
		op                       gpu.Operation
		oneStream, copyExchanges bool
		engine                   *gpu.Engine
		kind                     *gpu.Kind
	}{
		{name: "two-streams", op: gpu.ServerExchange},
		{name: "one-stream", op: gpu.ServerExchange, oneStream: true},
		{name: "two-streams-copied", op: gpu.ServerExchange, copyExchanges: true},
		{name: "one-stream-copied", op: gpu.ServerExchange, oneStream: true, copyExchanges: true},
		{name: "kem-alone", op: gpu.Encaps},
	}
	for i := range modes {
		m := &modes[i]
		c := gpu.Config{Library: cfg.GPU.Library, Devices: cfg.GPU.Devices, Sets: []int{n}, Workers: 1, Capacity: onCardElse(4096, 4), MaxWait: time.Hour, Hang: time.Hour,
			OneStream: m.oneStream, CopyExchanges: m.copyExchanges, Logger: cfg.Logger}
		if m.engine, err = gpu.Open(c); err != nil {
			b.Fatal(err)
		}
		defer m.engine.Close()
		if m.kind, err = m.engine.Kind(n, m.op); err != nil {
			b.Fatal(err)
		}
	}
	share := ownClient(b, s).share
	exchange := &request{op: opServerExchange, scheme: s, peer: share, own: random(HybridEncapsulationSeedSize)}
	encapsulation := &request{op: opEncapsulate, scheme: s, peer: share[x25519Size:], own: random(ctruprime.SeedSize), out: make([]byte, outSize(opEncapsulate, s))}
	exchange.out = make([]byte, outSize(opServerExchange, s))
	for _, size := range onCardElse([]int{1, 16, 64, 256, 1024, 4096}, []int{1, 4}) {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			for range b.N {
				times, used := make([][]time.Duration, len(modes)), make([]time.Duration, len(modes))
				for range onCardElse(rounds, 1) {
					for i := range modes {
						r := exchange
						if modes[i].op == gpu.Encaps {
							r = encapsulation
						}
						took, processor := batchTime(b, modes[i].engine, modes[i].kind, r, size)
						times[i], used[i] = append(times[i], took), used[i]+processor
					}
				}
				for i := range modes {
					slices.Sort(times[i])
					b.ReportMetric(float64(times[i][len(times[i])/2].Nanoseconds())/1e3, modes[i].name+"-us")
					b.ReportMetric(float64(used[i].Nanoseconds())/1e3/float64(len(times[i])), modes[i].name+"-cpu-us")
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// batchTime has a device carry out the same request n times in one batch, and returns
// the time from the last submission on, and the processor's.
func batchTime(b *testing.B, e *gpu.Engine, k *gpu.Kind, r *request, n int) (took, used time.Duration) {
	t, err := e.Reserve(k, n)
	if err != nil || t.Rows() != n {
		b.Fatalf("%d of %d rows: %v", t.Rows(), n, err)
	}
	defer t.Release()
	for i := range n {
		fill(t.Input(i), r)
	}
	start, before := time.Now(), processorTime()
	t.Submit()
	if err := t.Wait(context.Background()); err != nil {
		b.Fatal(err)
	}
	return time.Since(start), processorTime() - before
}
