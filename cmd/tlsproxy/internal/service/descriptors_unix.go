//go:build unix

package service

import (
	"fmt"
	"syscall"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

// spareDescriptors is what the process needs beside connections: files,
// listeners, the runtime's own.
const spareDescriptors = 64

// descriptorWarning tells if the limits allow more connections than the
// process can have descriptors: one for each client, one for each request's
// backend.
func descriptorWarning(l config.Limits) []string {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil
	}
	if need := uint64(l.Connections + l.Requests + spareDescriptors); need > uint64(limit.Cur) {
		return []string{fmt.Sprintf("limits.connections and limits.requests can take %d file descriptors, but the process may have %d; raise its limit (ulimit -n, LimitNOFILE=) or lower them", need, limit.Cur)}
	}
	return nil
}
