package machine

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestProcessCPUTime(t *testing.T) {
	before, err := CPUTime()
	if err != nil {
		t.Fatal(err)
	}
	clock, err := ProcessCPUTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	after, err := CPUTime()
	if err != nil {
		t.Fatal(err)
	}
	const rounding = 20 * time.Millisecond // of both times of getrusage or /proc
	if clock < before-rounding || clock > after+rounding {
		t.Errorf("%v, getrusage says from %v to %v", clock, before, after)
	}
	stat, err := processStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	later, err := ProcessCPUTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if stat < clock-rounding || stat > later+rounding {
		t.Errorf("/proc says %v, the clock from %v to %v", stat, clock, later)
	}
}

func TestNoProcess(t *testing.T) {
	for _, pid := range []int{0, -1, 1<<22 + 1} { // beyond PID_MAX_LIMIT
		if _, err := ProcessCPUTime(pid); err == nil || !strings.HasPrefix(err.Error(), "machine: ") {
			t.Errorf("%d: %v", pid, err)
		}
	}
}

func TestParseStat(t *testing.T) {
	const tail = " S 1 2 3 0 -1 4194560 5329 76300 0 15 123 77 70 28 20 0 1 0 1303908"
	for _, name := range []string{"(bash)", "(a b) c)", "()"} {
		if d, err := parseStat("4711 " + name + tail); err != nil || d != 2*time.Second {
			t.Errorf("%s: %v, %v", name, d, err)
		}
	}
	for _, bad := range []string{"", "1 (a) S 1 2", "1 (a) S 1 2 3 0 -1 4194560 5329 76300 0 15 x 77 70"} {
		if d, err := parseStat(bad); err == nil {
			t.Errorf("%q: %v", bad, d)
		}
	}
}

func TestKernel(t *testing.T) {
	if k := This().Kernel; k == "" || strings.ContainsAny(k, " \n") {
		t.Errorf("%q", k)
	}
}
