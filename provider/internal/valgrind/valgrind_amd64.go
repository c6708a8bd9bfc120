//go:build valgrind && linux

package valgrind

import "unsafe"

// Requests, from memcheck.h and callgrind.h of valgrind.
const (
	makeUndefined = 'M'<<24 | 'C'<<16 + 1
	makeDefined   = 'M'<<24 | 'C'<<16 + 2
	zeroStats     = 'C'<<24 | 'T'<<16 + 1
	toggleCollect = 'C'<<24 | 'T'<<16 + 2
	dumpStatsAt   = 'C'<<24 | 'T'<<16 + 3
)

// arguments is a request as valgrind reads it.
type arguments struct {
	code, address, length uintptr
	_                     [3]uintptr
}

// request passes a request to valgrind, if the program runs under it.
//
//go:noescape
func request(a *arguments)

// Secret marks the elements of s undefined.
func Secret[T byte | int16 | int32](s []T) { mark(makeUndefined, s) }

// Public marks the elements of s defined.
func Public[T byte | int16 | int32 | bool](s []T) { mark(makeDefined, s) }

func mark[T any](code uintptr, s []T) {
	var element T
	request(&arguments{code: code, address: uintptr(unsafe.Pointer(unsafe.SliceData(s))), length: uintptr(len(s)) * unsafe.Sizeof(element)})
}

// Count writes the instructions of f to a profile of that name. Callgrind must
// have been started with --collect-atstart=no.
func Count(name string, f func()) {
	text := append([]byte(name), 0)
	request(&arguments{code: zeroStats})
	request(&arguments{code: toggleCollect})
	f()
	request(&arguments{code: toggleCollect})
	request(&arguments{code: dumpStatsAt, address: uintptr(unsafe.Pointer(&text[0]))})
}
