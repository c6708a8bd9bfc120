//go:build gorgonia && !(cgo && linux && (amd64 || arm64))

package gorgonia

// Rather than a program that goes on without it.
var _ = gorgonia_needs_cgo_on_linux_on_amd64_or_arm64
