package main

import (
	"os"
	"runtime"
)

// heapFloor is how much the heap holds at least before garbage is collected, in bytes: it
// is what the collector believes to be in use, and as much again may be garbage. A larger
// one would save little more, and what handshakes leave behind would no longer stay in a
// processor's cache: with 32 MB a server that has one connection at a time takes a tenth
// more of its time for each.
const heapFloor = 8 << 20

// raiseHeapFloor makes the collector run less often while little is in use. A handshake
// leaves 80 KB of garbage behind; with the runtime's own floor of 4 MB a busy server would
// collect fifty times a second, and give up to an eighth of its processor time to that. The
// floor is memory that is never touched, so it takes none of the machine's; up to as much
// garbage does. Where GOGC or GOMEMLIMIT is set, it is their word that counts.
//
// drop ends it.
func raiseHeapFloor() (drop func()) {
	for _, variable := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(variable) != "" {
			return func() {}
		}
	}
	floor := make([]byte, heapFloor)
	return func() { runtime.KeepAlive(floor) }
}
