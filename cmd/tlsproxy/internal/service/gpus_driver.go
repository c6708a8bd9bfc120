//go:build !nogpu

package service

import (
	"fmt"

	"github.com/ctrutls/ctrutls/gpu/driver"
)

// lacksGPUs says why the driver's library does not give these devices, or any if none is named.
func lacksGPUs(library string, devices []int) error {
	api, err := driver.Open(library)
	if err != nil {
		return err
	}
	n, err := api.DeviceCount()
	if err != nil {
		return err
	}
	if n == 0 {
		return driver.ErrNoDevice
	}
	for _, device := range devices {
		if device >= n {
			return fmt.Errorf("%w names GPU %d, of %d that count from 0", errNumber, device, n)
		}
	}
	return nil
}
