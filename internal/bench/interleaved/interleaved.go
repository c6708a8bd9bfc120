// Package interleaved times functions side by side: in rounds, in each of which every function has several short turns, so that
// whatever else the machine does meanwhile, and however its clock changes, meets all of them alike. Of a round's turns the one that was
// disturbed least counts; ratios are to be taken round by round.
//
// It knows functions and time only, not what is measured.
package interleaved

import (
	"context"
	"fmt"
	"math"
	"time"
)

// A Subject is a function to time.
type Subject struct {
	Name string
	Each int // operations of one call: times are for one operation; 0 means 1
	Call func() error
}

// Options say how long is measured. A measurement takes about Rounds * Turns * Turn for each subject, and as long again where single calls
// take longer than a Turn.
type Options struct {
	Rounds int           // at least 1
	Turns  int           // of each subject in a round; at least 1
	Turn   time.Duration // of a subject's calls in a row; at least one call is made
	Before func()        // is called before each turn, untimed; nil: nothing is
}

// A Result is what became of a subject.
type Result struct {
	Times []float64 // of an operation, in nanoseconds: the least of each round's turns
	Err   error     // of a call; the subject has no further turns, and no Times
}

// maxCalls bounds the calls of a turn.
const maxCalls = 1 << 24

// Measure times the subjects, of which results are in the same order. The error says that ctx was done before the end, or that
// the options are wrong; that a subject failed is in its result and disturbs no other one.
func Measure(ctx context.Context, subjects []Subject, o Options) ([]Result, error) {
	if o.Rounds < 1 || o.Turns < 1 || o.Turn < 0 {
		return nil, fmt.Errorf("interleaved: %d rounds of %d turns of %v; there has to be one at least", o.Rounds, o.Turns, o.Turn)
	}
	results := make([]Result, len(subjects))
	calls := make([]int, len(subjects))
	for i := range subjects {
		calls[i] = results[i].calibrate(&subjects[i], o)
	}
	for range o.Rounds {
		least := make([]time.Duration, len(subjects))
		for i := range least {
			least[i] = math.MaxInt64
		}
		for range o.Turns {
			for i := range subjects {
				if err := ctx.Err(); err != nil {
					return nil, fmt.Errorf("interleaved: not measured to the end: %w", context.Cause(ctx))
				}
				if results[i].Err == nil {
					least[i] = min(least[i], results[i].turn(&subjects[i], calls[i], o.Before))
				}
			}
		}
		for i, s := range subjects {
			if results[i].Err == nil {
				results[i].Times = append(results[i].Times, float64(least[i])/float64(calls[i]*max(s.Each, 1)))
			}
		}
	}
	return results, nil
}

// calibrate returns how many calls take about a turn.
func (r *Result) calibrate(s *Subject, o Options) int {
	for calls := 1; ; {
		took := r.turn(s, calls, o.Before)
		if r.Err != nil || took >= o.Turn/2 || calls >= maxCalls {
			return max(1, int(float64(calls)*min(float64(o.Turn)/float64(max(took, 1)), 2)))
		}
		calls *= 2
	}
}

// turn makes so many calls and returns their time. What a call panics with is its error.
func (r *Result) turn(s *Subject, calls int, before func()) (took time.Duration) {
	defer func() {
		if what := recover(); what != nil {
			r.fail(s, fmt.Errorf("it panicked: %v", what))
		}
	}()
	if before != nil {
		before()
	}
	start := time.Now()
	for range calls {
		if err := s.Call(); err != nil {
			r.fail(s, err)
			return 0
		}
	}
	return time.Since(start)
}

func (r *Result) fail(s *Subject, err error) {
	r.Times, r.Err = nil, fmt.Errorf("interleaved: %s: %w", s.Name, err)
}
