package proxy

// growStack gives this goroutine's stack its room at once, while there is next to nothing
// on it to be copied: a frame of 12 KiB makes it one of 16 KiB, on which most handshakes
// fit, and which is the largest that the runtime keeps at hand for each processor.
// A handshake otherwise outgrows a new goroutine's stack again and again, deep in its
// calls, which is a twentieth of all that it does. It is in assembly as Go would also
// clear the frame.
func growStack()
