// Package machine says what computer this is and how much processor time this
// process has used, for reports of measurements.
package machine
