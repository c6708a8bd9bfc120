// Package gpu runs batches of operations on CUDA devices, of the KEM, of its hybrid with X25519, and of ECDSA: it finds the devices, keeps them
// open, collects the rows of many callers into batches, and says when a device cannot be relied on. It knows bytes in rows of fixed size and the plans of package kernels; it
// must not know what the rows mean, TLS, or how to do an operation without a device: whoever calls it does that when an error says so.
//
// # A row's way
//
// A caller reserves a row of a kind (a parameter set and an operation: kind.go) in the batch that is being filled, writes its input
// straight into the batch's pinned memory, submits it, waits, reads the output there and releases the row:
//
//	t, err := e.Reserve(kind, 1)
//	if err != nil { ... } // no room, or no device: do it without
//	defer t.Release()
//	copy(t.Input(0), input)
//	t.Submit()
//	if err := t.Wait(ctx); err != nil { ... } // the context ended, or do it without
//	copy(output, t.Output(0))
//
// All copies are made by the callers, each of its own row, so that the engine touches no memory of theirs: one whose context
// ends releases its row and goes, and the batch goes on.
//
// # Batches
//
// Each device has workers: a goroutine with two CUDA streams, and with an OS thread to itself while it runs a batch. A worker without work takes
// the batch that is open, whatever is in it, and while its stream is busy the next batch fills; another worker starts that one only when it has
// enough rows to be worth what a batch costs the CPU. Nothing is timed: batches grow because the device is busy. Batches of several kinds take
// turns. Waiting costs no processor: workers sleep in the driver on a blocking event or on a channel, and one channel a batch, closed when its
// results are there, wakes all of its callers. Copies go once each way a batch; the kernels of small batches of Encaps read and write the pinned
// memory themselves. The two halves of an exchange, X25519's and the KEM's, run side by side in the two streams of their worker.
//
// # Several devices
//
// A row goes to the device that is expected to be done with it first, by the batches ahead of it there and what batches of that size have taken.
// What a device that fails gives back with ErrFault its caller may reserve again, on another.
//
// # Bounds
//
// Pinned memory is Config.Buffers times a batch of Config.Capacity rows a device; where there is none left, Reserve refuses, and Room tells when to
// try again. A batch that has not come back Config.MaxWait after its first row was reserved is given up by its callers, and until it does come
// back its device is passed over. One that runs for Config.Hang and an eighth of it counts as hung; a process
// that was stopped, for whatever reason, has the eighth to find that its batches are done.
//
// # Faults
//
// After any error of the driver the rows of the batch get ErrFault, the device's session (context, modules, streams, memory) is ended and a new
// one opened with growing pauses, after Config.Probes have come out right. An error that spoils the context, or a hang, is
// answered by a reset of the context first; where the device then cannot be opened it stays closed until the process is started again, which is
// how a card behaves after a fault in a kernel. Engine.Refuse closes a device for good. Engine.Stats says how each device stands.
//
// A device's primary context belongs to all of the process, and a reset takes it from everybody. So none is tried, and the device stays closed, where another
// Engine uses it or pinned memory is in it, and where it was there before any of these: then the program itself uses it, or another library does, such as
// CUDA's runtime. Whoever takes it up later by such means is not seen; a program that does should retain it before Open.
//
// # Signatures
//
// Each signing key has a Kind of its own (Engine.SigningKind), and so batches of its own. Its private part is on a device for as long as a batch of its
// rows is.
//
// # Jobs
//
// Whoever has millions of rows passes them by Engine.Run, in pinned memory of his own (AllocPinned), which any engine of the process takes: chunks of them go through separate streams for
// the copy in, the kernels and the copy out, on all devices at once. Each device takes chunks as it comes free, and what one that fails has taken
// the others do again.
//
// # Secrets
//
// Rows are wiped in pinned memory as they are released, and in device memory by the stream, after each batch.
package gpu
