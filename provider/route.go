package provider

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/ctrutls/ctrutls/internal/average"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// A router sends each batch of requests to the CPU or to the GPUs.
//
// It asks how many processors the key exchanges would keep busy if the CPU did
// them all, the load. Each request on the CPU counts as one, as long as it runs.
// A request on a GPU is in flight while it waits for a batch and while that runs, of
// which time it would have kept a processor busy for its own cost: it counts as
// cost / flight. So the same arrivals give the same load wherever they are sent,
// and arrivals that come in crowds or not at all even out in the average.
//
// A batch of n requests takes base + n * each on a GPU, by a line through what was
// measured, and n * cost on one processor. From base / (cost - each) requests on
// the GPU is done sooner: that many arrive while a batch runs when the load is
// one processor. From that load on the GPUs get them, and where there are few
// processors from a quarter of them on: a handshake has as much else to do as its key
// exchange, so half of them are busy then, and requests begin to wait for each other.
// Below it, and whenever nothing else is in flight, the CPU serves at once. A batch
// costs the processor something too, which its requests have to be worth
// (batchCost): a few signatures in flight, ten or twenty encapsulations. Where a further request
// takes a GPU longer than it takes a processor, the GPU gets none, except for a
// few now and then, by which it shows whether that still holds.
type router struct {
	cpu    *cpuEngine
	gpu    offload
	most   int          // processors
	enough float64      // the load from which on GPUs get requests
	onCPU  atomic.Int64 // processors busy with requests
	load   average.Level
	routes [operations][]*route // by parameter set, as in schemes
	sign   *route
	all    []*route // in the order of Stats
}

// schemes are the parameter sets, smallest first.
var schemes = []*ctruprime.Scheme{ctruprime.Scheme653(), ctruprime.Scheme761(), ctruprime.Scheme1277()}

// A route is what a router knows of one operation of one parameter set.
type route struct {
	kind  request
	onGPU atomic.Int64    // requests in flight
	cost  average.Average // of a request on the CPU, in nanoseconds
	tries atomic.Uint64   // requests that met a GPU slower than a processor
}

const (
	// batchCost is what requests must cost the CPU together for a batch to be
	// worthwhile. A batch costs it 60 to 90 us, in calls of the driver and threads that
	// wake, on a machine with an H200.
	batchCost = 100 * time.Microsecond
	// signBatch is how many times that for signatures: a handshake whose key exchange is
	// on a GPU waits for it a second time then.
	signBatch = 2
	// minBatch is how many requests that is while one's cost or a batch's time is not
	// known, where there are processors enough.
	minBatch = 2
	// A GPU that was not measured gets so many requests at a time, and one that is
	// slower than a processor so many after each number that it did not get.
	trials     = 64
	trialEvery = 1 << 18
)

func newRouter(cpu *cpuEngine, gpu offload) *router {
	processors := runtime.GOMAXPROCS(0) // asking takes a lock: not for each request
	r := &router{cpu: cpu, gpu: gpu, most: processors, enough: min(1, float64(processors)/4), sign: &route{kind: request{op: opSign}}}
	for _, s := range schemes {
		for op := range operations {
			t := &route{kind: request{op: op, scheme: s}}
			r.routes[op] = append(r.routes[op], t)
			r.all = append(r.all, t)
		}
	}
	r.all = append(r.all, r.sign)
	cpu.ephemerals.busy = &r.onCPU
	cpu.observe = func(q *request, n int, took time.Duration) {
		r.route(q).cost.Add(float64(took) / float64(n))
	}
	return r
}

func (r *router) route(q *request) *route {
	if q.op == opSign {
		return r.sign
	}
	for _, t := range r.routes[q.op] {
		if t.kind.scheme == q.scheme {
			return t
		}
	}
	panic("provider: unknown parameter set")
}

func (*router) name() string { return string(EngineAuto) }

func (r *router) close() { r.gpu.close() }

func (r *router) keyGroup() int {
	if r.gpu.available() {
		return r.gpu.keyGroup()
	}
	return r.cpu.keyGroup()
}

// serve sends the batch, whose requests are of one kind.
func (r *router) serve(ctx context.Context, batch []request) {
	if len(batch) == 0 {
		return
	}
	t, n := r.route(&batch[0]), int64(len(batch))
	offload := r.offloads(t, len(batch))
	if q := &batch[0]; q.op == opSign {
		l, _ := r.gpu.latency(q)
		offload = q.key.inDemand(n, r.share(t), r.least(t, l)) && offload && adopted(q)
		flight := q.key.flight(offload)
		flight.Add(n)
		defer flight.Add(-n)
	}
	if offload {
		t.onGPU.Add(n)
		defer t.onGPU.Add(-n)
		r.gpu.serve(ctx, batch)
		return
	}
	busy := int64(min(len(batch), r.most))
	r.onCPU.Add(busy)
	defer r.onCPU.Add(-busy)
	r.cpu.serve(ctx, batch)
}

// Signatures have one route, but those by one key do not fill another's batches. So
// each key has a load of its own, counted in the same way, and its signatures
// stay on the CPU while too few of them would come together.
type keyLoad struct {
	onCPU, onGPU atomic.Int64 // signatures in flight
	level        average.Level
}

// inDemand says whether a batch's time would bring a key as many signatures as
// a batch is worth, and takes note of the load that n more meet. share is what
// one on a GPU stands for; before that is known, which 1 says, any demand will do. least
// is what a batch is to have.
func (k *keyLoad) inDemand(n int64, share, least float64) bool {
	level := k.level.Add(float64(k.onCPU.Load()) + float64(k.onGPU.Load())*share)
	return share >= 1 || level+float64(n-1)*share >= least*share
}

// flight is where signatures are counted while they are served.
func (k *keyLoad) flight(onGPU bool) *atomic.Int64 {
	if onGPU {
		return &k.onGPU
	}
	return &k.onCPU
}

// adopted says whether the devices know a signature's key; if not, they are to.
func adopted(q *request) bool {
	q.wanted = q.key.device.Load() == nil
	return !q.wanted
}

func (r *router) adopt(k *signingKey) error { return r.gpu.adopt(k) }

// bulk leaves all Bulks to the GPUs, in whose place the CPU does them if need be.
func (r *router) bulk(ctx context.Context, b *Bulk, s *seeder) (bulkCounts, error) {
	return r.gpu.bulk(ctx, b, s)
}

func (r *router) pin(n int) (*Pinned, error) { return r.gpu.pin(n) }

func (r *router) install(k *BulkKeys) error { return r.gpu.install(k) }

// share is what part of a processor a request on a GPU stands for: its cost on
// the CPU by the time that it is in flight, at most one, which it is where either
// has not been measured.
func (r *router) share(t *route) float64 {
	l, _ := r.gpu.latency(&t.kind)
	cost := t.cost.Value()
	if cost == 0 || l.flight == 0 {
		return 1
	}
	return min(cost/float64(l.flight), 1)
}

// least is how many requests a batch is to have.
func (r *router) least(t *route, l latency) float64 {
	cost := t.cost.Value()
	if cost == 0 || l.mean == 0 {
		if r.enough < 1 { // few processors: no request ever meets so many others
			return r.enough
		}
		return minBatch
	}
	least := float64(batchCost) / cost
	if t.kind.op == opSign {
		least *= signBatch
	}
	return max(1, least)
}

// threshold is the number of requests in flight from which on the GPUs are to
// get them; 0 if they never are.
func (r *router) threshold(t *route, l latency) float64 {
	cost := t.cost.Value()
	switch gain := cost - float64(l.each); {
	case cost == 0 || l.mean == 0:
		return r.least(t, l)
	case gain <= 0:
		return 0
	default:
		return max(r.least(t, l), r.enough*float64(l.base)/gain)
	}
}

// inFlight returns the load of this moment.
func (r *router) inFlight() float64 {
	load := float64(r.onCPU.Load())
	for _, t := range r.all {
		if n := t.onGPU.Load(); n > 0 {
			load += float64(n) * r.share(t)
		}
	}
	return load
}

// offloads says whether a batch of n requests goes to the GPUs, and takes note of
// the load that it meets.
func (r *router) offloads(t *route, n int) bool {
	now := r.inFlight()
	load := r.load.Add(now)
	l, served := r.gpu.latency(&t.kind)
	if !served || !r.gpu.available() || n == 1 && now == 0 {
		return false
	}
	share := r.share(t)
	if load+float64(n-1)*share < max(r.enough, r.least(t, l)*share) {
		return false
	}
	switch {
	case l.mean == 0: // a few will tell
		return t.onGPU.Load() < trials
	case r.threshold(t, l) > 0:
		return true
	}
	return t.tries.Add(1)%trialEvery < trials
}

func (r *router) stats(st *Stats) {
	r.gpu.stats(st)
	st.Routing = &RoutingStats{Load: r.load.Value()}
	for _, t := range r.all {
		l, _ := r.gpu.latency(&t.kind)
		cost := t.cost.Value()
		if cost == 0 && l.mean == 0 {
			continue
		}
		st.Routing.Routes = append(st.Routing.Routes, RouteStats{Scheme: schemeName(&t.kind), Operation: t.kind.op.String(),
			CPUCost: time.Duration(cost), BatchLatency: l.mean, BatchBase: l.base, BatchEach: l.each, Threshold: r.threshold(t, l)})
	}
}
