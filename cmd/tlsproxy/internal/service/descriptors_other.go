//go:build !unix

package service

import "github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"

// descriptorWarning has nothing to tell where the system sets no such limit.
func descriptorWarning(config.Limits) []string { return nil }
