//go:build linux && !nogpu

package provider

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/gpu"
	"github.com/ctrutls/ctrutls/internal/bench"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// idleLatency is about what a batch of exchanges takes on an H200.
const idleLatency = 200 * time.Microsecond

// openIdle returns a Provider whose device does nothing and takes a while for it.
func openIdle(tb testing.TB, latency time.Duration) *Provider {
	tb.Helper()
	log := slog.New(slog.DiscardHandler)
	e := newGPUEngine(&cpuEngine{log: log}, log)
	c := gpu.Config{Driver: &bench.Idle{Latency: latency}, Sets: []int{761}, MaxWait: time.Minute, Hang: time.Minute, Logger: log}
	if err := e.open(c, []*ctruprime.Scheme{ctruprime.Scheme761()}); err != nil {
		tb.Fatal(err)
	}
	p := open(Config{KeyPoolSize: -1}, log, e)
	tb.Cleanup(func() { p.Close() })
	return p
}

// BenchmarkHandOff reports what a server's exchange costs the CPU when a device
// makes it, by the number of callers that exchange without a pause; how much that is
// of what the same exchange costs when the CPU makes it, in the same run; and how
// large the batches are.
func BenchmarkHandOff(b *testing.B) {
	const onCPU = 2000
	for _, callers := range []int{64, 256, 1024, 4096} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			p := openIdle(b, idleLatency)
			s := ctruprime.Scheme761()
			share := ownClient(b, s).share
			exchange := func(p *Provider) func(context.Context) error {
				return func(ctx context.Context) error {
					_, _, err := p.ServerExchange(ctx, s, share)
					return err
				}
			}
			cpu := open(Config{KeyPoolSize: -1}, slog.New(slog.DiscardHandler), &cpuEngine{})
			defer cpu.Close()
			alone := exchangeLoad(b, 1, onCPU, exchange(cpu))
			b.ReportAllocs()
			b.ResetTimer()
			used := exchangeLoad(b, callers, b.N, exchange(p))
			b.StopTimer()
			st := p.Stats().GPU
			d := st.Devices[0]
			b.ReportMetric(100*float64(st.Served)/float64(b.N), "%by-gpu")
			b.ReportMetric(float64(used.Nanoseconds())/1e3/float64(b.N), "cpu-us/op")
			b.ReportMetric(100*float64(used)/float64(b.N)/(float64(alone)/onCPU), "%of-cpu")
			b.ReportMetric(float64(d.Rows)/float64(d.Batches), "batch")
		})
	}
}

// BenchmarkHandOffPaced is BenchmarkHandOff with exchanges that arrive at a rate, as a
// server's do, which makes for small batches.
func BenchmarkHandOffPaced(b *testing.B) {
	for _, rate := range []int{2000, 10_000, 50_000} {
		b.Run(fmt.Sprint(rate), func(b *testing.B) {
			p := openIdle(b, idleLatency)
			s := ctruprime.Scheme761()
			share := ownClient(b, s).share
			for range b.N {
				measurePaced(b, p, rate, time.Second, func(ctx context.Context) error {
					_, _, err := p.ServerExchange(ctx, s, share)
					return err
				})
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// measurePaced reports what calls that arrive at random, so many a second, cost the
// processor and how long they take. What the arrivals themselves cost is measured
// before, and taken off.
func measurePaced(b *testing.B, p *Provider, rate int, during time.Duration, call func(context.Context) error) {
	idle, calls, _ := pace(b, rate, during, func(context.Context) error { return nil })
	alone := float64(idle) / float64(calls)
	before := p.Stats()
	used, calls, latencies := pace(b, rate, during, call)
	slices.Sort(latencies)
	b.ReportMetric((float64(used)/float64(calls)-alone)/1e3, "cpu-us/op")
	b.ReportMetric(float64(calls)/during.Seconds(), "exchanges/s")
	b.ReportMetric(float64(latencies[calls/2].Nanoseconds())/1e3, "us-p50")
	b.ReportMetric(float64(latencies[calls*99/100].Nanoseconds())/1e3, "us-p99")
	if after := p.Stats(); after.GPU != nil {
		d, was := after.GPU.Devices[0], before.GPU.Devices[0]
		b.ReportMetric(float64(d.Rows-was.Rows)/float64(max(d.Batches-was.Batches, 1)), "batch")
		b.ReportMetric(100*float64(after.GPU.Served-before.GPU.Served)/float64(calls), "%by-gpu")
	}
}

// pace makes calls at random times, at a rate, and returns the processor time used and
// how long each of them took.
func pace(tb testing.TB, rate int, during time.Duration, call func(context.Context) error) (used time.Duration, calls int, latencies []time.Duration) {
	const callers = 128
	var mu sync.Mutex
	var wg sync.WaitGroup
	before := processorTime()
	end := time.Now().Add(during)
	for range callers {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var own []time.Duration
			for next := time.Now(); ; {
				next = next.Add(time.Duration(rand.ExpFloat64() * callers / float64(rate) * float64(time.Second)))
				if next.After(end) {
					break
				}
				time.Sleep(time.Until(next))
				began := time.Now()
				if err := call(ctx); err != nil {
					tb.Error(err)
					return
				}
				own = append(own, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			latencies = append(latencies, own...)
		})
	}
	wg.Wait()
	return processorTime() - before, len(latencies), latencies
}

// exchangeLoad has callers do n operations together, each caller with a context of
// its own as handshakes have, and returns the processor time that took.
func exchangeLoad(tb testing.TB, callers, n int, do func(context.Context) error) time.Duration {
	tb.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	before := processorTime()
	for range callers {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			for left.Add(-1) >= 0 {
				if err := do(ctx); err != nil {
					tb.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return processorTime() - before
}

// processorTime is what this process has used of all processors.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
