//go:build unix

package watch

import (
	"os"
	"syscall"
)

// identity is a file's device and number there.
type identity struct{ device, number uint64 }

func identityOf(info os.FileInfo) identity {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return identity{uint64(s.Dev), uint64(s.Ino)}
	}
	return identity{}
}
