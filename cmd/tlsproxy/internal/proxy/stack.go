package proxy

// growStack gives this goroutine's stack its room at once, while there is next to nothing
// on it to be copied: a frame of 24 KiB makes it one of 32 KiB, on which a handshake fits.
// A handshake otherwise outgrows a new goroutine's stack again and again, deep in its
// calls, which is a twentieth of all that it does. It is in assembly as Go would also
// clear the frame.
func growStack()
