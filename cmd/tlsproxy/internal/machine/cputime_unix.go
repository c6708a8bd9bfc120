//go:build unix

package machine

import (
	"fmt"
	"syscall"
	"time"
)

// CPUTime returns the processor time that this process has used so far, its
// own and the kernel's on its behalf.
func CPUTime() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("machine: getrusage: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}
