// Package gorgonia opens CUDA's driver library through gorgonia.org/cu, for programs that are built with cgo and may use that package
// beside this one. A program imports it for its effect, and is built with -tags gorgonia: then [driver.Open] returns an implementation
// of [driver.API] over cu instead of the one over purego. Without the tag the package is empty and cu is no part of the build. It knows
// what package driver knows, and nothing of kernels or batches.
//
//	import _ "github.com/ctrutls/ctrutls/gpu/driver/gorgonia"
//
//	CGO_ENABLED=1 CGO_CFLAGS="-O2 -g -I$PWD/gpu/driver/gorgonia/include" go build -tags gorgonia ./...
//
// It needs Linux on amd64 or arm64, a C compiler, and no CUDA toolkit. include/cuda.h is what cu is compiled with: cu v0.9.6 does not
// compile with the header of CUDA 13, and with this one it is the same with every toolkit and with none.
//
// # What cu lacks
//
// cu links against libcuda, so that a program with it does not start where that is missing, and calls cuInit when it is imported, which ends the
// process where there is no GPU. Here every function of libcuda is a trampoline of our own (trampolines.c), which [driver.Open]
// points at the library that it has opened. Until then they fail with CUDA_ERROR_NOT_INITIALIZED, but for cuInit: a program that uses
// cu itself calls driver.Open before. All of the process shares the trampolines, so there is one library: opening a second fails.
//
// The context that package gpu works in is the device's primary one. A program that uses the same by cu (Device.RetainPrimaryCtx) retains it before it opens
// an engine, which then never resets it; contexts of cu's own (NewContext, Device.MakeContext) are none of the engine's.
//
// cu has no page-locked memory, no cuFuncSetAttribute, no PCI addresses and no error texts; its queries allocate when there is nothing yet. Those
// calls are made directly (calls.go). Its handles cannot be made from numbers, which is done by their layout (handles.go). Its
// Launch copies the parameters to C memory, eight bytes each, at the cost of four more calls into C.
package gorgonia
