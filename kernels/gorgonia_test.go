//go:build gorgonia

package kernels_test

import _ "github.com/ctrutls/ctrutls/gpu/driver/gorgonia" // driver.Open
