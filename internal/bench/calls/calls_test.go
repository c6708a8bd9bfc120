package calls

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRun: all callers call at once, and each at least once.
func TestRun(t *testing.T) {
	const callers = 8
	var made atomic.Int64
	var all sync.WaitGroup
	all.Add(callers)
	r, err := Run(t.Context(), callers, 0, func(context.Context) error {
		if made.Add(1) <= callers {
			all.Done()
			all.Wait() // for the others' first calls
		}
		return nil
	})
	if err != nil || r.Calls != int(made.Load()) || r.Calls < callers || r.P99 < r.P50 || r.P50 <= 0 || r.Elapsed < r.P99 {
		t.Errorf("%+v, %v; %d were made", r, err, made.Load())
	}
}

func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	if _, err := Run(t.Context(), 2, time.Hour, func(ctx context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Run(ctx, 2, time.Hour, func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, callers := range []int{0, MaxCallers + 1} {
		if _, err := Run(t.Context(), callers, 0, nil); err == nil {
			t.Errorf("%d callers", callers)
		}
	}
}
