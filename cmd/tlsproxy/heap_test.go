package main

import (
	"runtime"
	"runtime/metrics"
	"testing"
)

// TestHeapFloor: the collector's goal holds the floor once, and as much again, unless the
// environment says otherwise.
func TestHeapFloor(t *testing.T) {
	goal := func() uint64 {
		runtime.GC()
		sample := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	drop := raiseHeapFloor()
	if got := goal(); got < 2*heapFloor {
		t.Errorf("the goal is %d bytes", got)
	}
	drop()
	for _, variable := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Setenv(variable, "100")
		drop := raiseHeapFloor()
		if got := goal(); got >= 2*heapFloor {
			t.Errorf("%s: the goal is %d bytes", variable, got)
		}
		drop()
		t.Setenv(variable, "")
	}
}
