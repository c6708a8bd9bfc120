package provider

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// fakeGPU is a GPU engine of the CPU, with a latency and an availability that a
// test sets.
type fakeGPU struct {
	cpuEngine
	present bool
	none    bool // there is no such kind
	takes   latency
	hold    chan struct{} // requests wait until it is closed
	entered chan int
}

func (g *fakeGPU) available() bool                      { return g.present }
func (g *fakeGPU) latency(*request) (latency, bool)     { return g.takes, !g.none }
func (g *fakeGPU) keyGroup() int                        { return 1000 }
func (g *fakeGPU) stats(st *Stats)                      { st.GPU = &GPUStats{} }
func (g *fakeGPU) serve(_ context.Context, b []request) { g.entered <- len(b); <-g.hold }

// takes is the latency of a GPU whose requests do not wait for batches to start.
func takes(mean, base, each time.Duration) latency {
	return latency{mean: mean, base: base, each: each, flight: mean}
}

// route761 returns a router of four processors whose measurements say that an
// encapsulation costs 25 us on the CPU and a batch takes 100 us.
func route761() (*router, *fakeGPU, *route) {
	g := &fakeGPU{present: true, takes: takes(100_000, 100_000, 0), hold: make(chan struct{}), entered: make(chan int, 100)}
	r := newRouter(&cpuEngine{log: slog.Default()}, g)
	r.most, r.enough = 4, 1
	t := r.route(&request{op: opEncapsulate, scheme: ctruprime.Scheme761()})
	t.cost.Add(25_000)
	return r, g, t
}

// settle lets the average come to rest at the load of the moment.
func settle(r *router, t *route) (offloads bool) {
	for range 500 {
		offloads = r.offloads(t, 1)
	}
	return offloads
}

func TestRouteByLoad(t *testing.T) {
	r, g, encaps := route761()
	if settle(r, encaps) {
		t.Error("a request alone is not for the GPU")
	}
	// Four requests in flight on the GPU are the work of one processor.
	for _, c := range []struct {
		onCPU, onGPU int64
		want         bool
	}{{0, 1, false}, {0, 3, false}, {0, 5, true}, {0, 40, true}, {2, 0, true}, {7, 0, true}, {0, 0, false}} {
		r.onCPU.Store(c.onCPU)
		encaps.onGPU.Store(c.onGPU)
		if got := settle(r, encaps); got != c.want {
			t.Errorf("%d on the CPU and %d on the GPU: %v at a load of %v", c.onCPU, c.onGPU, got, r.load.Value())
		}
	}
	encaps.onGPU.Store(40)
	settle(r, encaps)
	g.present = false
	if r.offloads(encaps, 1) {
		t.Error("to a GPU that is not there")
	}
	g.present, g.none = true, true
	if r.offloads(encaps, 1) {
		t.Error("to a GPU that does not serve it")
	}
	g.none = false
	encaps.onGPU.Store(0)
	if r.offloads(encaps, 1) {
		t.Error("a request alone, after a crowd")
	}
}

// The threshold follows the measurements.
func TestRouteThreshold(t *testing.T) {
	for _, c := range []struct {
		cost      float64
		takes     latency
		threshold float64
	}{
		{25_000, takes(50_000, 50_000, 0), 4}, // a batch is to be worth its cost
		{25_000, takes(200_000, 200_000, 0), 8},
		{100_000, takes(200_000, 200_000, 0), 2},
		{400_000, takes(100_000, 100_000, 0), 1},
		{100_000, takes(230_000, 200_000, 0), 2}, // an exchange, with X25519
		{10_000, takes(1_000_000, 1_000_000, 0), 100},
		{40_000, takes(220_000, 180_000, 10_000), 6},
		{30_000, takes(120_000, 80_000, 30_000), 0},
		{5_000, takes(500_000, 0, 500_000), 0},
		{5_000, latency{}, 2},
	} {
		r, g, _ := route761()
		decaps := r.route(&request{op: opDecapsulate, scheme: ctruprime.Scheme1277()})
		decaps.cost.Add(c.cost)
		g.takes = c.takes
		if c.threshold == 0 {
			decaps.onGPU.Store(1000)
			settle(r, decaps)
			decaps.tries.Store(trials)
			if settle(r, decaps) {
				t.Errorf("%+v: a request goes where it takes longer", c)
			}
			decaps.tries.Store(trialEvery - 1)
			if !r.offloads(decaps, 1) {
				t.Errorf("%+v: the GPU is never tried again", c)
			}
		} else {
			decaps.onGPU.Store(int64(c.threshold) - 1)
			below := settle(r, decaps)
			decaps.onGPU.Store(int64(c.threshold) + 1)
			if above := settle(r, decaps); below || !above {
				t.Errorf("%+v: %v below the threshold, %v above", c, below, above)
			}
		}
		var st Stats
		r.stats(&st)
		for _, route := range st.Routing.Routes {
			if route.Scheme == "CTRU-Prime-1277" && route.Operation == "decapsulate" {
				want := RouteStats{"CTRU-Prime-1277", "decapsulate", time.Duration(c.cost), c.takes.mean, c.takes.base, c.takes.each, c.threshold}
				if route != want {
					t.Errorf("%+v, want %+v", route, want)
				}
			}
		}
	}
}

// Where there are few processors, GPUs get requests before those would keep one busy.
func TestRouteFewProcessors(t *testing.T) {
	if r, _, _ := route761(); newRouter(r.cpu, r.gpu).enough != min(1, float64(runtime.GOMAXPROCS(0))/4) {
		t.Errorf("a load of %v is enough with %d processors", newRouter(r.cpu, r.gpu).enough, runtime.GOMAXPROCS(0))
	}
	for enough, want := range map[float64]float64{0.25: 1, 0.5: 2, 1: 4} {
		r, g, _ := route761()
		r.enough = enough
		g.takes = takes(400_000, 400_000, 0)
		exchange := r.route(&request{op: opServerExchange, scheme: ctruprime.Scheme761()})
		exchange.cost.Add(100_000)
		if got := r.threshold(exchange, g.takes); got != want {
			t.Errorf("a threshold of %v where a load of %v is enough, want %v", got, enough, want)
		}
		exchange.onGPU.Store(3)
		if got := settle(r, exchange); got != (enough < 1) {
			t.Errorf("three in flight, where a load of %v is enough: %v", enough, got)
		}
	}
}

// Where there are few processors, which never have many requests in flight together, a
// GPU that was not measured is tried all the same.
func TestRouteUnmeasuredFewProcessors(t *testing.T) {
	for enough, want := range map[float64]bool{0.25: true, 0.5: true, 1: false} {
		r, g, _ := route761()
		r.enough, g.takes = enough, latency{}
		exchange := r.route(&request{op: opServerExchange, scheme: ctruprime.Scheme761()})
		r.onCPU.Store(1)
		if got := settle(r, exchange); got != want {
			t.Errorf("one in flight, where a load of %v is enough: %v", enough, got)
		}
	}
}

// A GPU that was not measured yet gets a few requests at a time.
func TestRouteUnmeasured(t *testing.T) {
	r, g, encaps := route761()
	g.takes = latency{}
	encaps.onGPU.Store(trials - 1)
	if !settle(r, encaps) {
		t.Error("the GPU is not tried")
	}
	encaps.onGPU.Store(trials)
	if settle(r, encaps) {
		t.Error("a crowd goes to a GPU that was not measured")
	}
}

// A batch brings its own load.
func TestRouteBatch(t *testing.T) {
	r, _, encaps := route761()
	for n, want := range map[int]bool{1: false, 3: false, 5: true, 100: true} {
		if got := r.offloads(encaps, n); got != want {
			t.Errorf("a batch of %d: %v", n, got)
		}
	}
}

// What goes where is counted in flight, and the CPU's cost is measured.
func TestRouteServe(t *testing.T) {
	r, g, encaps := route761()
	s := ctruprime.Scheme761()
	var wg sync.WaitGroup
	wg.Go(func() { r.serve(t.Context(), nil) }) // an empty batch
	batch := make([]request, 50)
	for i := range batch {
		batch[i] = request{op: opEncapsulate, scheme: s}
	}
	wg.Go(func() { r.serve(t.Context(), batch) })
	if n := <-g.entered; n != 50 {
		t.Errorf("%d requests", n)
	}
	if n := encaps.onGPU.Load(); n != 50 {
		t.Errorf("%d in flight", n)
	}
	if got, want := r.inFlight(), 12.5; got != want {
		t.Errorf("a load of %v, want %v", got, want)
	}
	close(g.hold)
	wg.Wait()
	if n := encaps.onGPU.Load(); n != 0 {
		t.Errorf("%d in flight", n)
	}

	decaps := r.route(&request{op: opGenerateKey, scheme: s})
	one := []request{{op: opGenerateKey, scheme: s, own: random(64), out: make([]byte, s.PrivateKeySize())}}
	r.serve(t.Context(), one)
	if one[0].err != nil || decaps.cost.Value() == 0 || r.onCPU.Load() != 0 {
		t.Errorf("%v, cost %v, %d in flight", one[0].err, decaps.cost.Value(), r.onCPU.Load())
	}
	if r.keyGroup() != 1000 {
		t.Error("the GPU's group of keys")
	}
	g.present = false
	if r.keyGroup() != r.cpu.keyGroup() {
		t.Error("the CPU's group of keys")
	}
}
