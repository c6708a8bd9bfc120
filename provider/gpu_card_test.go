//go:build (sim || gputest) && !nogpu

package provider

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/internal/bench"
	"github.com/ctrutls/ctrutls/internal/bench/calls"
	"github.com/ctrutls/ctrutls/kernels"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// How much the tests and measurements on a card do. The simulator does little of
// it, to show that they work.
var (
	cardCalls = flag.Int("card.calls", onCardElse(20_000, 8), "exchanges of each set to check")
	cardRows  = flag.Int("card.rows", onCardElse(100_000, 8), "operations of a Bulk to check")
	cardBulk  = flag.Int("card.bulk", onCardElse(4_000_000, 16), "operations of a Bulk to measure")
	cardTime  = flag.Duration("card.time", onCardElse(3*time.Second, 50*time.Millisecond), "how long each load is measured")
	cardSoak  = flag.Duration("card.soak", onCardElse(30*time.Second, 100*time.Millisecond), "how long the memory is watched")
)

func onCardElse[T any](card, simulator T) T {
	if onSimulator {
		return simulator
	}
	return card
}

// A device computes what the CPU does, in batches as they come.
func TestCard(t *testing.T) {
	cfg := cardConfig(t)
	cfg.GPU.CheckEvery = 10
	p := openTest(t, cfg)
	const callers = 64
	for _, s := range cardSchemes(cfg) {
		exchanges(t, p, s, min(callers, *cardCalls), max(*cardCalls/callers, 1))
	}
	st := p.Stats().GPU
	for _, d := range st.Devices {
		t.Logf("%+v", d)
	}
	if st.Served == 0 || st.Mismatches != 0 || st.Faulted != 0 || st.Late != 0 {
		t.Errorf("%+v", st)
	}
}

func cardSchemes(cfg Config) []*ctruprime.Scheme {
	if cfg.GPU.Schemes == nil {
		return schemes
	}
	return cfg.GPU.Schemes
}

func TestCardBulk(t *testing.T) {
	cfg := cardConfig(t)
	cfg.GPU.CheckEvery = 16
	p := openTest(t, cfg)
	for _, s := range cardSchemes(cfg) {
		bulkRoundTrip(t, p, s, *cardRows, *cardRows/3)
	}
	if st := p.Stats().GPU; st.Mismatches != 0 || st.Faulted != 0 {
		t.Errorf("%+v", st)
	}
}

// BenchmarkCardLoad has so many callers encapsulate without a pause, by the GPU,
// by the CPU, and by whichever EngineAuto chooses.
func BenchmarkCardLoad(b *testing.B) {
	for _, engine := range []Engine{EngineGPU, EngineCPU, EngineAuto} {
		for _, callers := range []int{1, 4, 16, 64, 256, 1024, 4096} {
			b.Run(fmt.Sprintf("%s/%d", engine, callers), func(b *testing.B) {
				cfg := cardConfig(b)
				cfg.Engine = engine
				p, err := Open(cfg)
				if err != nil {
					b.Fatal(err)
				}
				defer p.Close()
				for range b.N {
					measureLoad(b, p, cardSchemes(cfg), callers)
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func measureLoad(b *testing.B, p *Provider, of []*ctruprime.Scheme, callers int) {
	s := of[len(of)/2]
	sk := make([]byte, s.PrivateKeySize())
	if err := s.GenerateKeyBytes(sk, random(ctruprime.KeySeedSize)); err != nil {
		b.Fatal(err)
	}
	pk := s.PublicKeyOf(sk)
	measureCalls(b, p, callers, func() error {
		_, _, err := p.Encapsulate(context.Background(), s, pk)
		return err
	})
}

// measureCalls reports what a call takes when so many callers make it without a
// pause.
func measureCalls(b *testing.B, p *Provider, callers int, call func() error) {
	before, cpu := p.Stats().GPU, processorTime()
	r, err := calls.Run(b.Context(), callers, *cardTime, func(context.Context) error { return call() })
	if err != nil {
		b.Error(err)
		return
	}
	used, n := processorTime()-cpu, float64(r.Calls)
	b.ReportMetric(n/r.Elapsed.Seconds()/1e6, "M/s")
	b.ReportMetric(used.Seconds()*1e6/n, "cpu-us/op")
	if st := p.Stats().GPU; st != nil && st.Served > before.Served {
		d, was := st.Devices[0], before.Devices[0]
		b.ReportMetric(float64(d.Rows-was.Rows)/float64(d.Batches-was.Batches), "batch")
		b.ReportMetric(float64(d.LatencyP50.Nanoseconds())/1e3, "us-p50")
		b.ReportMetric(float64(d.LatencyP99.Nanoseconds())/1e3, "us-p99")
		b.ReportMetric(100*float64(st.Served-before.Served)/n, "%by-gpu")
	}
}

// BenchmarkCardIdle reports the share of one processor that an open provider uses
// while nobody calls it.
func BenchmarkCardIdle(b *testing.B) {
	p, err := Open(cardConfig(b))
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	for range b.N {
		before := processorTime()
		time.Sleep(*cardTime)
		b.ReportMetric(100*float64(processorTime()-before)/float64(*cardTime), "cpu-%")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkCardBulk reports the rate of RunBulk beside that of the same kernels,
// and of the same copies, driven without an engine in the same run.
func BenchmarkCardBulk(b *testing.B) {
	cfg := cardConfig(b)
	s := cardSchemes(cfg)[len(cardSchemes(cfg))/2]
	for _, op := range []BulkOperation{BulkEncapsulate, BulkDecapsulate, BulkGenerateKeys} {
		for _, seeded := range []bool{true, false} {
			if op == BulkDecapsulate && !seeded {
				continue // it has no seeds
			}
			name := bulkOperations[op].String()
			if !seeded {
				name += "/seeds-drawn"
			}
			b.Run(name, func(b *testing.B) {
				for range b.N {
					rate := bulkRate(b, cfg, s, op, seeded)
					kernels, copies := kernelRates(b, cfg, s, op)
					b.ReportMetric(rate/1e6, "M/s")
					b.ReportMetric(kernels/1e6, "kernels-M/s")
					b.ReportMetric(100*rate/kernels, "%of-kernels")
					b.ReportMetric(100*rate/copies, "%of-copies")
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// benchKeys is how many keys the decapsulations are done by.
const benchKeys = 4096

// bulkRate returns operations a second.
func bulkRate(b *testing.B, cfg Config, s *ctruprime.Scheme, op BulkOperation, seeded bool) float64 {
	p, err := Open(cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	check := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	c, err := bench.NewCase(newSet(b, s), kernelOperation(op), onCardElse(benchKeys, 4), bench.CaseOptions{Table: bulkTable(op)}, 1)
	check(err)
	var keys *BulkKeys
	if op == BulkDecapsulate {
		keys, err = p.NewBulkKeys(s, op, c.Table)
		check(err)
		defer keys.Close()
	}
	k := &Bulk{Scheme: s, Operation: op, Rows: *cardBulk, Keys: keys, Seeded: seeded}
	memory := func(n int) []byte {
		m, err := p.AllocPinned(n)
		check(err)
		b.Cleanup(func() { check(m.Free()) })
		return m.Bytes
	}
	k.Input, k.Output, k.Status = memory(k.Rows*k.InputSize()), memory(k.Rows*k.OutputSize()), memory(4*k.Rows)
	fillRows(k.Input, c.Input)
	if keys != nil {
		k.Index = memory(4 * k.Rows)
		fillRows(k.Index, c.Index)
	}
	check(p.RunBulk(b.Context(), k)) // makes the device's memory
	start := time.Now()
	check(p.RunBulk(b.Context(), k))
	took := time.Since(start)
	if st := p.Stats().GPU; st.Faulted != 0 || st.Mismatches != 0 {
		b.Errorf("%+v", st)
	}
	return float64(k.Rows) / took.Seconds()
}

func fillRows(to, rows []byte) {
	for len(to) > 0 {
		to = to[copy(to, rows):]
	}
}

func kernelOperation(op BulkOperation) kernels.Operation {
	return [...]kernels.Operation{BulkGenerateKeys: kernels.KeyGen, BulkEncapsulate: kernels.Encaps, BulkDecapsulate: kernels.Decaps}[op]
}

func bulkTable(op BulkOperation) int {
	if op == BulkDecapsulate {
		return onCardElse(benchKeys, 4)
	}
	return 0
}

func newSet(b *testing.B, s *ctruprime.Scheme) *kernels.Set {
	n := 0
	if _, err := fmt.Sscanf(s.Name(), "CTRU-Prime-%d", &n); err != nil {
		b.Fatal(err)
	}
	set, err := kernels.NewSet(n)
	if err != nil {
		b.Fatal(err)
	}
	return set
}

// kernelRates returns operations a second of the kernels with their copies, and of the
// copies alone.
func kernelRates(b *testing.B, cfg Config, s *ctruprime.Scheme, op BulkOperation) (all, copies float64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	card, err := bench.OpenCard(cfg.GPU.Library, 0)
	if err != nil {
		b.Fatal(err)
	}
	n := onCardElse(4096, 4)
	c, err := bench.NewCase(newSet(b, s), kernelOperation(op), n, bench.CaseOptions{Table: bulkTable(op)}, 1)
	if err != nil {
		b.Fatal(err)
	}
	o := bench.EndToEndOptions{Options: kernels.Options{Table: bulkTable(op)}, Chunk: onCardElse(1<<15, 4), Rings: 5}
	if all, err = card.EndToEnd(c, *cardBulk, o); err != nil {
		b.Fatal(err)
	}
	o.Copies = true
	if copies, err = card.EndToEnd(c, *cardBulk, o); err != nil {
		b.Fatal(err)
	}
	if err := card.Close(); err != nil {
		b.Fatal(err)
	}
	return all, copies
}

// trapChild makes this test a process of its own, since a card is of no use to a
// process after a fault of a kernel.
const trapChild = "PROVIDER_TEST_TRAP"

// A kernel traps on the device in the midst of the load: no exchange fails and no
// secret is wrong, the device is reset once, and if that does not help it says
// that a restart would.
func TestCardTrap(t *testing.T) {
	if !onSimulator && os.Getenv(trapChild) == "" {
		child := exec.Command(os.Args[0], "-test.run=^TestCardTrap$", "-test.v")
		child.Env = append(os.Environ(), trapChild+"=1")
		out, err := child.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Error(err)
		}
		return
	}
	cfg := cardConfig(t)
	p := openTest(t, cfg)
	s := cardSchemes(cfg)[0]
	var wg sync.WaitGroup
	wg.Go(func() { exchanges(t, p, s, min(256, *cardCalls), max(*cardCalls/64, 2)) })
	await(t, "the device serves", func() bool { return p.Stats().GPU.Served > 0 })
	trap(t)
	await(t, "the device has failed", func() bool {
		if onSimulator { // whose fault hits the next launch
			exchanges(t, p, s, 1, 1)
		}
		return p.Stats().GPU.Devices[0].Faults > 0
	})
	wg.Wait()
	exchanges(t, p, s, 8, 2)
	await(t, "the device is reset", func() bool {
		d := p.Stats().GPU.Devices[0]
		return d.Resets == 1 && d.State != "reopening"
	})
	st := p.Stats().GPU
	t.Logf("after a trap: %+v", st.Devices[0])
	needsRestart := st.Devices[0].State == "closed" && strings.Contains(st.Devices[0].LastError, "started again")
	if d := st.Devices[0]; st.Mismatches != 0 || d.State != "open" && !needsRestart {
		t.Errorf("%+v", st)
	}
}
