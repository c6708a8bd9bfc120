//go:build !((linux || freebsd || darwin) && (amd64 || arm64))

package driver

import (
	"fmt"
	"runtime"
)

// openLibrary reports ErrNoDriver: the driver is not loaded on this platform.
func openLibrary(string) (API, error) {
	return nil, fmt.Errorf("driver: %w: not supported on %s/%s", ErrNoDriver, runtime.GOOS, runtime.GOARCH)
}
