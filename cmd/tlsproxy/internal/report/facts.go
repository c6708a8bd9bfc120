package report

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/machine"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// facts are about this machine and this binary.
func facts(program string, g *gpus) []Fact {
	m := machine.This()
	system := m.OS
	if m.Kernel != "" {
		system += " " + m.Kernel
	}
	all := []Fact{
		{"Processor", m.CPU},
		{"Cores", fmt.Sprintf("%d that this process uses, of %d", m.Cores, runtime.NumCPU())},
		{"Instructions", instructions()},
		{"System", system},
	}
	all = append(all, g.facts()...)
	all = append(all, Fact{"Program", program}, Fact{"Go", strings.TrimPrefix(m.Go, "go")}, Fact{"Hook in crypto/tls", hook()})
	all = append(all, kernelFacts()...)
	if version := moduleVersion("github.com/cloudflare/circl"); version != "" {
		all = append(all, Fact{"circl", version})
	}
	return all
}

// instructions are those in use, and what else runs here.
func instructions() string {
	levels := ctruprime.Levels()
	names := make([]string, len(levels))
	for i, l := range levels {
		names[i] = l.String()
	}
	in := names[len(names)-1] + " in use"
	if len(names) > 1 {
		in += "; " + strings.Join(names[:len(names)-1], ", ") + " run too"
	}
	return in
}

func hook() string {
	if groups.HookPresent() {
		return "present"
	}
	return "absent: the groups of crypto/tls alone can be measured"
}

// moduleVersion is of a module that this binary holds.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return m.Version
		}
	}
	return ""
}
