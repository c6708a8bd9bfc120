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

// Options say how long is measured.
type Options struct {
	Rounds int           // at least 1
	Turn   time.Duration // of a subject's calls in a row; at least one call is made
	Turns  int           // of each subject in a round; 0: as many as there are within Time, at least 1
	Time   time.Duration // that all rounds together take, if Turns is 0: longer by what is under way at the end
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
	if o.Rounds < 1 || o.Turns < 0 || o.Turn < 0 || o.Time < 0 {
		return nil, fmt.Errorf("interleaved: %d rounds of %d turns of %v, or of %v; there has to be a round, and none of them negative", o.Rounds, o.Turns, o.Turn, o.Time)
	}
	results := make([]Result, len(subjects))
	calls := make([]int, len(subjects))
	start := time.Now()
	for i := range subjects {
		if ctx.Err() != nil {
			return nil, interrupted(ctx)
		}
		calls[i] = results[i].calibrate(&subjects[i], o)
	}
	for round := range o.Rounds {
		// Where one round took longer than its share, the next ones have less.
		end := time.Now().Add((o.Time - time.Since(start)) / time.Duration(o.Rounds-round))
		if err := measureRound(ctx, subjects, results, calls, o, end); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// measureRound gives each subject its turns: those that are asked for, or at least one until end.
func measureRound(ctx context.Context, subjects []Subject, results []Result, calls []int, o Options, end time.Time) error {
	least := make([]time.Duration, len(subjects))
	for i := range least {
		least[i] = math.MaxInt64
	}
	for turn := 0; turn == 0 || turn < o.Turns || o.Turns == 0 && time.Now().Before(end); turn++ {
		for i := range subjects {
			if ctx.Err() != nil {
				return interrupted(ctx)
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
	return nil
}

func interrupted(ctx context.Context) error {
	return fmt.Errorf("interleaved: not measured to the end: %w", context.Cause(ctx))
}

// attempts are as many turns as calibrate takes the least of: one that is cut off by somebody else's work must not pass for a long one.
const attempts = 3

// calibrate returns how many calls take about a turn.
func (r *Result) calibrate(s *Subject, o Options) int {
	for calls := 1; ; calls *= 2 {
		took := time.Duration(math.MaxInt64)
		for i := 0; i < attempts && r.Err == nil; i++ {
			took = min(took, r.turn(s, calls, o.Before))
		}
		if r.Err != nil || took >= o.Turn/2 || calls >= maxCalls {
			return max(1, int(float64(calls)*min(float64(o.Turn)/float64(max(took, 1)), 2)))
		}
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
