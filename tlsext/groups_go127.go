//go:build go1.27

package tlsext

import (
	"crypto/tls"
	"slices"
)

// Go 1.27 adds MLKEM1024, off by default, behind the hybrids.
func init() {
	stdGroups = slices.Insert(stdGroups, 3, stdGroup{id: tls.MLKEM1024, names: []string{"MLKEM1024"}})
}
