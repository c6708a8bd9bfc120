//go:build !(valgrind && linux && amd64)

package ctruprime

// declassify returns what a secret decides and everybody may know. Under valgrind
// it says so.
func declassify(public bool) bool { return public }
