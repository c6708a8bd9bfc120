// Package testkernels holds the PTX of testkernels.cu, the kernels that test gpu/driver and the simulator. It is for
// tests; the product's kernels are in package kernels.
package testkernels

import _ "embed"

// PTX is testkernels.cu compiled for compute capability 8.0.
//
//go:embed testkernels.ptx
var PTX []byte
