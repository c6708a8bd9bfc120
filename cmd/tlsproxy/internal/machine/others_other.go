//go:build !linux

package machine

import (
	"errors"
	"time"
)

// usage fails: it is known how to ask on Linux only.
func usage() (all, ours time.Duration, processors int, err error) {
	return 0, 0, 0, errors.New("machine: the processor time of all processes is measured on Linux only")
}
