package proxy

// handshakeStack is what growStack makes room for, in bytes: a stack of 32 KiB then, on
// which a handshake fits.
const handshakeStack = 24 << 10

// growStack gives this goroutine's stack its room at once, while there is next to nothing
// on it to be copied. A handshake otherwise outgrows a new goroutine's stack again and
// again, deep in its calls, which is a twentieth of all that it does.
//
//go:noinline
func growStack() { touch(new(room)) }

// room stays on the stack, as touch does not keep it.
type room [handshakeStack]byte

//go:noinline
func touch(r *room) { r[0] = 1 }
