// Package driver is CUDA's driver API behind one small interface, [API], and nothing more: it knows contexts, modules,
// memory, streams, events and launches, and must not know what the kernels compute, who batches work for them, or that
// TLS exists. [Open] loads libcuda.so.1 at run time through purego, so the package needs neither cgo nor a CUDA toolkit
// to build, and a machine without a driver gets [ErrNoDriver] instead of a program that does not start. The simulator in
// kernels/sim is loaded the same way. Package gorgonia, beneath this one, makes Open use gorgonia.org/cu instead.
//
// # Threads
//
// CUDA keeps a current context per OS thread. Every call of [API] that works in a context (all but Version, DeviceCount,
// DeviceInfo and the PrimaryCtx calls) acts on the context that [API.CtxSetCurrent] last set on the calling thread: a goroutine calls
// runtime.LockOSThread before it and keeps the lock for as long as it makes such calls. All calls are safe
// for concurrent use by several threads. Calls that wait (the Synchronize ones) hold their OS thread, not a processor of
// the Go scheduler.
//
// # Memory
//
// Copies are asynchronous: the host memory of a copy that is under way must stay allocated and must not be touched. It should come from
// [API.HostAlloc], which lies outside the Go heap; copies from and to other memory are slow, and those to the
// host wait for the stream.
//
// # Errors
//
// A failed call returns an [*Error] that carries the call and CUDA's number, name and text; errors.Is compares it with the Results
// named here. A Result whose [Result.Sticky] is true spoils its context: all later calls in it fail the same way until the context
// is reset, and sometimes until the process ends.
package driver
