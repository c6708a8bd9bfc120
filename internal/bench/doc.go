// Package bench runs the kernels' plans on a device without an engine: for the tests that hold every kernel against
// provider/ctruprime, and for the benchmarks that measure kernels, copies and streams. It must not be needed by anything that serves
// requests.
package bench
