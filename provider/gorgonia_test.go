//go:build gorgonia

package provider

import _ "github.com/ctrutls/ctrutls/gpu/driver/gorgonia" // driver.Open
