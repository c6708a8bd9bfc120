package machine

import (
	"errors"
	"testing"
	"time"
)

func TestParseSystemStat(t *testing.T) {
	busy, processors, err := parseSystemStat("cpu  100 200 300 4000 5000 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 1 2 3 4 5 6 7 8 9 10\nintr 1 2 3 4 5 6 7 8 9\n")
	if err != nil || processors != 2 || busy != 6210*time.Millisecond {
		t.Errorf("%v, %d, %v", busy, processors, err)
	}
	for _, bad := range []string{"", "cpu 1 2 3 4 5 6 7 8\n", "cpu 1 2 x 4 5 6 7 8\ncpu0 1 2 3 4 5 6 7 8\n"} {
		if _, _, err := parseSystemStat(bad); err == nil {
			t.Errorf("%q", bad)
		}
	}
}

// TestOthers: this process's own work is not that of others.
func TestOthers(t *testing.T) {
	if got := others(3*time.Second, time.Second, 4*time.Second); got != 0.5 {
		t.Errorf("%v of a processor", got)
	}
	if got := others(time.Second, 2*time.Second, time.Second); got != 0 {
		t.Errorf("%v of a processor", got)
	}
	w := WatchOthers()
	if w.err != nil {
		t.Fatal(w.err)
	}
	w.all, w.since = w.all-time.Hour, w.since.Add(-time.Hour) // as if all had worked since then
	if busy, processors, ok := w.Others(); !ok || busy < 0.5 || processors < 1 {
		t.Errorf("%v of %d, %v", busy, processors, ok)
	}
	w.err = errors.New("not known")
	if _, _, ok := w.Others(); ok {
		t.Error("known all the same")
	}
}
