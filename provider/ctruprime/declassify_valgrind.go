//go:build valgrind && linux && amd64

package ctruprime

import "github.com/ctrutls/ctrutls/provider/internal/valgrind"

// declassify returns what a secret decides and everybody may know, marked so.
func declassify(public bool) bool {
	b := [1]bool{public}
	valgrind.Public(b[:])
	return b[0]
}
