//go:build !unix

package service

import "github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"

// storageWarning has nothing to tell where a folder's mode does not say who may write.
func storageWarning(config.ACME) []string { return nil }
