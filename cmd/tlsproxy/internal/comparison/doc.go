// Package comparison measures several servers, or one server with several groups, side
// by side: in interleaved rounds, so that what else changes on the machine meets all of
// them alike, with medians over the rounds and ratios taken round by round.
//
// It knows what package loadgen measures and the processor time of server processes on
// this machine. It must not know what the servers are.
package comparison
