//go:build !linux

package machine

import (
	"errors"
	"time"
)

// ProcessCPUTime fails: it is known how to ask on Linux only.
func ProcessCPUTime(int) (time.Duration, error) {
	return 0, errors.New("machine: the processor time of another process is measured on Linux only")
}

func kernel() string { return "" }
