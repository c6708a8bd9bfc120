//go:build gorgonia && !nogpu

package main

import _ "github.com/ctrutls/ctrutls/gpu/driver/gorgonia" // CUDA's driver through gorgonia.org/cu
