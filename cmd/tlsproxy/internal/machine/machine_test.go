package machine

import (
	"crypto/sha256"
	"runtime"
	"strings"
	"testing"
)

func TestModelName(t *testing.T) {
	for text, want := range map[string]string{
		"processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD  EPYC   9654\nmodel name\t: other\n": "AMD EPYC 9654",
		"processor: 0\nBogoMIPS: 50\n": "",
		"":                             "",
	} {
		if got := modelName(strings.NewReader(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestThis(t *testing.T) {
	m := This()
	if m.CPU == "" || m.Cores != runtime.GOMAXPROCS(0) || m.OS != runtime.GOOS+"/"+runtime.GOARCH || m.Go != runtime.Version() {
		t.Errorf("%+v", m)
	}
}

// TestCPUTime works until the clock of the process has moved.
func TestCPUTime(t *testing.T) {
	before, err := CPUTime()
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 1<<20)
	for {
		sha256.Sum256(block)
		after, err := CPUTime()
		if err != nil {
			t.Fatal(err)
		}
		if after < before {
			t.Fatalf("from %v back to %v", before, after)
		}
		if after > before {
			return
		}
	}
}
