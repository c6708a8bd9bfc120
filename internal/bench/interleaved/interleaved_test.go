package interleaved

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMeasure: subjects take turns, one that fails or panics has no times and disturbs no other one.
func TestMeasure(t *testing.T) {
	var order []string
	count := func(name string, times int) Subject {
		calls := 0
		return Subject{name, 1, func() error {
			order = append(order, name)
			if calls++; times > 0 && calls > times {
				return errors.New("had enough")
			}
			return nil
		}}
	}
	before := 0
	subjects := []Subject{count("a", 0), count("b", 4), {"c", 1, func() error { panic("no") }}, count("d", 0)}
	results, err := Measure(t.Context(), subjects, Options{Rounds: 2, Turns: 2, Before: func() { before++ }})
	if err != nil {
		t.Fatal(err)
	}
	// A few calls of each to begin with, as Turn is 0, then turns of one call.
	if want := "a a a b b b d d d a b d a b d a d a d"; strings.Join(order, " ") != want {
		t.Errorf("%v, want %s", order, want)
	}
	if before != len(order)+1 { // c's
		t.Errorf("%d calls before %d turns", before, len(order)+1)
	}
	for i, want := range []string{"", "interleaved: b: had enough", "interleaved: c: it panicked: no", ""} {
		r := results[i]
		if want == "" && (r.Err != nil || len(r.Times) != 2 || slices.Min(r.Times) < 0) || want != "" && (r.Err == nil || r.Err.Error() != want || r.Times != nil) {
			t.Errorf("%d: %+v, want %q", i, r, want)
		}
	}
}

// TestEach: a time is that of one operation.
func TestEach(t *testing.T) {
	pause := func() error { time.Sleep(2 * time.Millisecond); return nil }
	results, err := Measure(t.Context(), []Subject{{"batch", 1000, pause}, {"one", 0, pause}}, Options{Rounds: 1, Turns: 1, Turn: time.Millisecond})
	if err != nil || results[1].Times[0] < 2e6 || results[0].Times[0] < 2e3 {
		t.Errorf("%+v, %v", results, err)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	_, err := Measure(ctx, []Subject{{"a", 1, func() error {
		if calls++; calls == attempts+2 {
			cancel()
		}
		return nil
	}}}, Options{Rounds: 100, Turns: 1})
	if !errors.Is(err, context.Canceled) || calls != attempts+2 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// TestTime: there are as many turns as there is time for.
func TestTime(t *testing.T) {
	calls := 0
	_, err := Measure(t.Context(), []Subject{{"a", 1, func() error { calls++; time.Sleep(time.Millisecond); return nil }}}, Options{Rounds: 2, Time: 50 * time.Millisecond})
	if err != nil || calls < attempts+2 || calls > attempts+50 { // a sleep takes a millisecond or more
		t.Errorf("%d calls, %v", calls, err)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{}, {Turns: 1}, {Rounds: 1, Turns: -1}, {Rounds: 1, Turns: 1, Turn: -1}, {Rounds: 1, Time: -1}} {
		if _, err := Measure(t.Context(), nil, o); err == nil {
			t.Errorf("%+v", o)
		}
	}
}
