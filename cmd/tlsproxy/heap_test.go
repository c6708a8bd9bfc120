package main

import (
	"runtime"
	"runtime/metrics"
	"testing"
)

// TestHeapFloor: the collector's goal is higher by the floor, at least, unless the
// environment says otherwise.
func TestHeapFloor(t *testing.T) {
	goal := func() uint64 {
		runtime.GC()
		sample := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	without := goal()
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	drop := raiseHeapFloor()
	if got := goal(); got < without+heapFloor {
		t.Errorf("the goal is %d bytes, without a floor %d", got, without)
	}
	drop()
	for _, variable := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Setenv(variable, "100")
		drop := raiseHeapFloor()
		if got := goal(); got >= without+heapFloor {
			t.Errorf("%s: the goal is %d bytes, without a floor %d", variable, got, without)
		}
		drop()
		t.Setenv(variable, "")
	}
}
