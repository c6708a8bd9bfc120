//go:build !unix

package machine

import (
	"errors"
	"time"
)

// CPUTime fails: it is known how to ask on Unix only.
func CPUTime() (time.Duration, error) {
	return 0, errors.New("machine: the processor time of a process is measured on Unix only")
}
