//go:build gorgonia

package bench_test

import _ "github.com/ctrutls/ctrutls/gpu/driver/gorgonia" // driver.Open
