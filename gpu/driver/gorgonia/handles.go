//go:build gorgonia && cgo && linux && (amd64 || arm64)

package gorgonia

import (
	"unsafe"

	"gorgonia.org/cu"

	"github.com/ctrutls/ctrutls/gpu/driver"
)

// cu's handles are structs of one C pointer each, to which it gives no access: it makes none from a number, and shows none but a
// Stream's. Should that change, this does not compile: an array's length is not negative.
var (
	_ [unsafe.Sizeof(uintptr(0)) - unsafe.Sizeof(cu.CUContext{})]struct{}
	_ [unsafe.Sizeof(cu.CUContext{}) - unsafe.Sizeof(uintptr(0))]struct{}
	_ [unsafe.Sizeof(uintptr(0)) - unsafe.Sizeof(cu.Module{})]struct{}
	_ [unsafe.Sizeof(cu.Module{}) - unsafe.Sizeof(uintptr(0))]struct{}
	_ [unsafe.Sizeof(uintptr(0)) - unsafe.Sizeof(cu.Function{})]struct{}
	_ [unsafe.Sizeof(cu.Function{}) - unsafe.Sizeof(uintptr(0))]struct{}
	_ [unsafe.Sizeof(uintptr(0)) - unsafe.Sizeof(cu.Stream{})]struct{}
	_ [unsafe.Sizeof(cu.Stream{}) - unsafe.Sizeof(uintptr(0))]struct{}
	_ [unsafe.Sizeof(uintptr(0)) - unsafe.Sizeof(cu.Event{})]struct{}
	_ [unsafe.Sizeof(cu.Event{}) - unsafe.Sizeof(uintptr(0))]struct{}
)

func contextOf(c driver.Context) cu.CUContext { return *(*cu.CUContext)(unsafe.Pointer(&c)) }
func moduleOf(m driver.Module) cu.Module      { return *(*cu.Module)(unsafe.Pointer(&m)) }
func functionOf(f driver.Function) cu.Function {
	return *(*cu.Function)(unsafe.Pointer(&f))
}
func streamOf(s driver.Stream) cu.Stream { return *(*cu.Stream)(unsafe.Pointer(&s)) }
func eventOf(e driver.Event) cu.Event    { return *(*cu.Event)(unsafe.Pointer(&e)) }

func contextNumber(c cu.CUContext) driver.Context { return *(*driver.Context)(unsafe.Pointer(&c)) }
func moduleNumber(m cu.Module) driver.Module      { return *(*driver.Module)(unsafe.Pointer(&m)) }
func functionNumber(f cu.Function) driver.Function {
	return *(*driver.Function)(unsafe.Pointer(&f))
}
func streamNumber(s cu.Stream) driver.Stream { return *(*driver.Stream)(unsafe.Pointer(&s)) }
func eventNumber(e cu.Event) driver.Event    { return *(*driver.Event)(unsafe.Pointer(&e)) }
