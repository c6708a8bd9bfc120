//go:build gorgonia

package gpu

import _ "github.com/ctrutls/ctrutls/gpu/driver/gorgonia" // driver.Open
