package comparison

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/loadgen"
)

// Subject is what is compared.
type Subject struct {
	Name  string
	Group string
	Base  bool // the others are compared with it
}

// Sample is one measurement of a subject.
type Sample struct {
	loadgen.Result
	ServerCPU time.Duration // of the server process; NoServerCPU if it was not measured
	Faults    []string      // what was not as it should be, beside failed connections
}

// NoServerCPU in a Sample says that the server's processor time is not known.
const NoServerCPU time.Duration = -1

// Row is what was measured of one subject: medians over the rounds, sums for the
// counts, and the greatest maximum. Durations are in nanoseconds in JSON.
type Row struct {
	Name        string         `json:"name"`
	Group       string         `json:"group"`
	Concurrency int            `json:"concurrency"`
	Rounds      int            `json:"rounds"`
	Completed   int            `json:"completed"` // handshakes
	Requests    int            `json:"requests"`
	Failed      int            `json:"failed"` // connections
	Failures    map[string]int `json:"failures,omitempty"`
	Errors      []string       `json:"errors,omitempty"`

	PerSecond         float64         `json:"per_second"` // handshakes
	RequestsPerSecond float64         `json:"requests_per_second"`
	Handshake         loadgen.Latency `json:"handshake"`
	Request           loadgen.Latency `json:"request"`

	// Of each handshake, with what came after it; 0 if it was not measured.
	ServerCPU time.Duration `json:"server_cpu"`
	ClientCPU time.Duration `json:"client_cpu"`
	// ServerCPUPerRequest is the same for each request, with its share of a handshake.
	ServerCPUPerRequest time.Duration `json:"server_cpu_per_request"`
	// Busy is how many cores were kept busy. PerServerCore is how many handshakes a
	// second of a core's time was enough for.
	ServerBusy    float64 `json:"server_busy"`
	ClientBusy    float64 `json:"client_busy"`
	PerServerCore float64 `json:"per_server_core"`

	Ratios []Ratio `json:"ratios"` // to each base, itself included
}

// Ratio compares a row with the base's of the same concurrency: each the median of the
// rounds' ratios, 0 if there is none.
type Ratio struct {
	Base                string  `json:"base"`
	ServerCPU           float64 `json:"server_cpu"`
	ServerCPUPerRequest float64 `json:"server_cpu_per_request"`
	PerSecond           float64 `json:"per_second"`
	P50                 float64 `json:"p50"` // of the handshake
	P99                 float64 `json:"p99"`
}

// Interleave calls measure for each of n subjects in each round. Each round begins with
// another subject.
func Interleave(rounds, n int, measure func(subject int) error) error {
	for round := range rounds {
		for turn := range n {
			if err := measure((round + turn) % n); err != nil {
				return err
			}
		}
	}
	return nil
}

// Rows sums up the samples of each subject, of which the n-th of one belongs to the same
// round as the n-th of another.
func Rows(subjects []Subject, concurrency int, samples [][]Sample) []Row {
	all := make([]Row, len(subjects))
	for i, s := range subjects {
		all[i] = row(s, concurrency, samples[i])
		for b, base := range subjects {
			if base.Base {
				all[i].Ratios = append(all[i].Ratios, compare(base.Name, samples[i], samples[b]))
			}
		}
	}
	return all
}

func row(subject Subject, concurrency int, samples []Sample) Row {
	r := Row{Name: subject.Name, Group: subject.Group, Concurrency: concurrency, Rounds: len(samples)}
	for _, s := range samples {
		r.Completed += s.Completed
		r.Requests += s.Requests
		r.Failed += s.Failed
		if r.Failures == nil {
			r.Failures = maps.Clone(s.Failures)
		} else {
			for cause, n := range s.Failures {
				r.Failures[cause] += n
			}
		}
		for _, text := range slices.Concat(s.Errors, s.Faults) {
			if !slices.Contains(r.Errors, text) {
				r.Errors = append(r.Errors, text)
			}
		}
	}
	r.PerSecond = median(samples, perSecond)
	r.RequestsPerSecond = median(samples, func(s Sample) float64 { return per(float64(s.Requests), s.Elapsed.Seconds()) })
	r.Handshake = latency(samples, func(s Sample) loadgen.Latency { return s.Handshake })
	r.Request = latency(samples, func(s Sample) loadgen.Latency { return s.Request })
	r.ServerCPU = time.Duration(median(samples, serverCPU))
	r.ServerCPUPerRequest = time.Duration(median(samples, serverCPUPerRequest))
	r.ClientCPU = time.Duration(median(samples, func(s Sample) float64 { return per(float64(s.CPU), float64(s.Completed)) }))
	r.ServerBusy = median(samples, func(s Sample) float64 { return per(float64(max(s.ServerCPU, 0)), float64(s.Elapsed)) })
	r.ClientBusy = median(samples, func(s Sample) float64 { return per(float64(s.CPU), float64(s.Elapsed)) })
	r.PerServerCore = per(float64(time.Second), float64(r.ServerCPU))
	return r
}

func perSecond(s Sample) float64 { return per(float64(s.Completed), s.Elapsed.Seconds()) }
func serverCPU(s Sample) float64 {
	return per(float64(max(s.ServerCPU, 0)), float64(s.Completed))
}
func serverCPUPerRequest(s Sample) float64 {
	return per(float64(max(s.ServerCPU, 0)), float64(s.Requests))
}

// per is 0 where there is nothing to divide by.
func per(what, of float64) float64 {
	if of == 0 {
		return 0
	}
	return what / of
}

func latency(samples []Sample, of func(Sample) loadgen.Latency) loadgen.Latency {
	var l loadgen.Latency
	l.P50 = median(samples, func(s Sample) time.Duration { return of(s).P50 })
	l.P90 = median(samples, func(s Sample) time.Duration { return of(s).P90 })
	l.P99 = median(samples, func(s Sample) time.Duration { return of(s).P99 })
	for _, s := range samples {
		l.Max = max(l.Max, of(s).Max)
	}
	return l
}

func compare(name string, samples, base []Sample) Ratio {
	n := min(len(samples), len(base)) // they differ where the last round was broken off
	of := func(value func(Sample) float64) float64 {
		var ratios []float64
		for i := range n {
			if a, b := value(samples[i]), value(base[i]); a > 0 && b > 0 {
				ratios = append(ratios, a/b)
			}
		}
		return median(ratios, func(r float64) float64 { return r })
	}
	return Ratio{Base: name,
		ServerCPU:           of(serverCPU),
		ServerCPUPerRequest: of(serverCPUPerRequest),
		PerSecond:           of(perSecond),
		P50:                 of(func(s Sample) float64 { return float64(s.Handshake.P50) }),
		P99:                 of(func(s Sample) float64 { return float64(s.Handshake.P99) }),
	}
}

// median is the middle value, the upper one of two, and 0 of none.
func median[S any, T cmp.Ordered](samples []S, value func(S) T) T {
	var zero T
	if len(samples) == 0 {
		return zero
	}
	values := make([]T, len(samples))
	for i, s := range samples {
		values[i] = value(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
