// Package valgrind talks to the valgrind that a program runs under: it tells
// memcheck which memory is secret, and callgrind what to count.
//
// Bytes that are marked undefined may be copied and computed with, and whatever
// is computed from them is undefined, too; memcheck reports every branch and
// every address that depends on them.
//
// It is for tests that are built with -tags valgrind, which makes the Go runtime
// tell valgrind what it does. It must not know what the secrets are.
package valgrind
