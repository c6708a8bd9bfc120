// Package simctl works the switches of the simulated CUDA driver in kernels/sim: it injects faults, holds streams, sets the
// number and size of the devices, and counts what is left behind. It is for tests and for the simulated demonstration;
// it talks to the simulator's library only, and must not be needed to use it: code under test goes through gpu/driver alone.
package simctl
