//go:build !linux

package loadgen

import "syscall"

// bindWithoutPort is Linux's alone.
func bindWithoutPort(_, _ string, _ syscall.RawConn) error { return nil }
