//go:build !((linux || freebsd || darwin) && (amd64 || arm64))

package driver

import "fmt"

// A Monitor reads devices' sensors. There is none on this platform.
type Monitor struct{}

// OpenMonitor reports ErrNoMonitor.
func OpenMonitor(string) (*Monitor, error) {
	return nil, fmt.Errorf("driver: %w: not supported on this platform", ErrNoMonitor)
}

// Read is not called.
func (*Monitor) Read(string) (Reading, error) { return Reading{}, ErrNoMonitor }

// Close is not called.
func (*Monitor) Close() error { return nil }
