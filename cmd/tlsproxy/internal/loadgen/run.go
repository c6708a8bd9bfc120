package loadgen

import (
	"bufio"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	hdrhistogram "github.com/HdrHistogram/hdrhistogram-go"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/machine"
)

// Result is what became of a run.
type Result struct {
	Completed int            `json:"completed"` // handshakes, those before a failed request included
	Requests  int            `json:"requests"`
	Failed    int            `json:"failed"`             // connections
	Failures  map[string]int `json:"failures,omitempty"` // the same by cause: an alert's name, a time-out, ...
	Errors    []string       `json:"errors,omitempty"`   // the first few in full
	Elapsed   time.Duration  `json:"elapsed"`
	CPU       time.Duration  `json:"cpu"` // of this process
	// Handshake is from before the connect, or with a Rate from when that was due, to
	// the end of the handshake; Request from before a request to the end of the answer.
	Handshake Latency `json:"handshake"`
	Request   Latency `json:"request"`
}

// Latency describes a distribution, right to a thousandth.
type Latency struct {
	P50 time.Duration `json:"p50"`
	P90 time.Duration `json:"p90"`
	P99 time.Duration `json:"p99"`
	Max time.Duration `json:"max"`
}

// Run makes load for the span, or until ctx is done: then what was done until then is
// the result. What is under way at the end of the span is finished.
func (c *Client) Run(ctx context.Context, span Span) (*Result, error) {
	if err := span.validate(); err != nil {
		return nil, err
	}
	before, err := machine.CPUTime()
	if err != nil {
		return nil, err
	}
	r := newRecorder()
	start := time.Now()
	p := &pace{start: start, rate: c.load.Rate, count: math.MaxInt64}
	if span.Count > 0 {
		p.count = int64(span.Count)
	}
	if span.Duration > 0 {
		p.end = start.Add(span.Duration)
	}
	var workers sync.WaitGroup
	for range min(int64(c.load.Concurrency), p.count) {
		workers.Go(func() { c.work(ctx, p, r) })
	}
	workers.Wait()
	elapsed := time.Since(start)
	after, err := machine.CPUTime()
	if err != nil {
		return nil, err
	}
	result := r.result()
	result.Elapsed, result.CPU = elapsed, after-before
	return result, nil
}

// work makes one connection after another, but one at least: on a busy machine a
// worker may have its first turn late.
func (c *Client) work(ctx context.Context, p *pace, r *recorder) {
	for first := true; ctx.Err() == nil; first = false {
		due, ok := p.next(ctx, first)
		if !ok {
			return
		}
		c.once(ctx, due, r)
	}
}

// pace says when connections begin.
type pace struct {
	start time.Time
	end   time.Time // zero: none
	rate  float64
	count int64
	begun atomic.Int64
}

// next waits until a connection is due and returns when that was; it is not ok where no
// other is to begin. Latencies are counted from when a connection was due, so that a
// server which holds up the client does not hide that by slowing it down.
func (p *pace) next(ctx context.Context, first bool) (due time.Time, ok bool) {
	if p.rate == 0 {
		now := time.Now()
		if !first && p.over(now) {
			return now, false
		}
		return now, p.begun.Add(1) <= p.count
	}
	n := p.begun.Add(1)
	due = p.start.Add(time.Duration(float64(n-1) / p.rate * float64(time.Second)))
	if n > p.count || p.over(due) {
		return due, false
	}
	wait := time.NewTimer(time.Until(due))
	defer wait.Stop()
	select {
	case <-wait.C:
		return due, true
	case <-ctx.Done():
		return due, false
	}
}

func (p *pace) over(t time.Time) bool { return !p.end.IsZero() && !t.Before(p.end) }

// readers lends the buffers through which answers are read.
var readers = sync.Pool{New: func() any { return bufio.NewReader(nil) }}

// Bounds of what a recorder keeps.
const (
	maxErrors = 5
	maxCauses = 32
)

// recorder collects what workers did.
type recorder struct {
	mu                  sync.Mutex
	handshakes          *hdrhistogram.Histogram
	answers             *hdrhistogram.Histogram
	failures            map[string]int
	failedTotal         int
	errors              []string
	maxHandshake, maxRq time.Duration
}

func newRecorder() *recorder {
	// Microseconds up to an hour, three digits.
	histogram := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, time.Hour.Microseconds(), 3) }
	return &recorder{handshakes: histogram(), answers: histogram(), failures: map[string]int{}}
}

func (r *recorder) handshake(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	record(r.handshakes, d)
	r.maxHandshake = max(r.maxHandshake, d)
}

func (r *recorder) request(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	record(r.answers, d)
	r.maxRq = max(r.maxRq, d)
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	h.RecordValue(min(max(d.Microseconds(), 1), h.HighestTrackableValue()))
}

// failed counts a failure, unless it is only that the run was broken off.
func (r *recorder) failed(ctx context.Context, err error) {
	if ctx.Err() != nil && !errors.As(err, new(unexpected)) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failedTotal++
	name := cause(err)
	if _, known := r.failures[name]; !known && len(r.failures) >= maxCauses {
		name = causeOther
	}
	r.failures[name]++
	if text := err.Error(); len(r.errors) < maxErrors && !slices.Contains(r.errors, text) {
		r.errors = append(r.errors, text)
	}
}

// result sums up once the workers are done.
func (r *recorder) result() *Result {
	out := &Result{
		Completed: int(r.handshakes.TotalCount()), Requests: int(r.answers.TotalCount()), Failed: r.failedTotal, Errors: r.errors,
		Handshake: latency(r.handshakes, r.maxHandshake), Request: latency(r.answers, r.maxRq),
	}
	if len(r.failures) > 0 {
		out.Failures = r.failures
	}
	return out
}

func latency(h *hdrhistogram.Histogram, most time.Duration) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	at := func(percent float64) time.Duration {
		return min(time.Duration(h.ValueAtPercentile(percent))*time.Microsecond, most)
	}
	return Latency{P50: at(50), P90: at(90), P99: at(99), Max: most}
}
