package main

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/build"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
)

type versionCommand struct{}

// Run prints what can be said of the binary, one fact a line.
func (c *versionCommand) Run(s streams) error {
	hook := "present"
	if !groups.HookPresent() {
		hook = "absent: only the groups of crypto/tls itself can be served; build with go tool gotls build ./cmd/tlsproxy"
	}
	served := groups.All()
	if !groups.HookPresent() {
		served = groups.OfCryptoTLS()
	}
	_, err := fmt.Fprintf(s.out, "tlsproxy %s\ncommit %s\ngo %s %s/%s\ncrypto/tls hook %s\ngroups %s\n",
		build.Version(), build.Commit(), strings.TrimPrefix(runtime.Version(), "go"), runtime.GOOS, runtime.GOARCH, hook,
		strings.Join(groups.Names(served), " "))
	return err
}

// programName is the program and its version, for the heads of reports.
func programName() string { return "tlsproxy " + build.Version() + ", commit " + build.Commit() }
