//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package sockets

import (
	"errors"
	"io/fs"
)

func setReusePort(int) error { return errors.New("this system has no SO_REUSEPORT") }

func restrict(int, fs.FileMode) error { return nil }
