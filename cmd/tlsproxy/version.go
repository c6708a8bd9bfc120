package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

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
		version(), commit(), strings.TrimPrefix(runtime.Version(), "go"), runtime.GOOS, runtime.GOARCH, hook,
		strings.Join(groups.Names(served), " "))
	return err
}

// programName is the program and its version, for the heads of reports.
func programName() string { return "tlsproxy " + version() + ", commit " + commit() }

// version is that of the module, "(devel)" in a build from a work tree.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// commit is the revision that the go command noted, if it did.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	switch revision := settings["vcs.revision"]; {
	case revision == "":
		return "unknown"
	case settings["vcs.modified"] == "true":
		return revision + " with changes"
	default:
		return revision
	}
}
