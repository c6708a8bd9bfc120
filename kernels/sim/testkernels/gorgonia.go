//go:build gorgonia

package testkernels

import _ "github.com/ctrutls/ctrutls/gpu/driver/gorgonia"
