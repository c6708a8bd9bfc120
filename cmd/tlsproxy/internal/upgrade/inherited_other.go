//go:build !unix

package upgrade

import "os"

func inherited(fd int, name string) *os.File { return os.NewFile(uintptr(fd), name) }
