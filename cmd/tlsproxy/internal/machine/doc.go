// Package machine says what computer this is and how much processor time this
// process, or another one, has used, for reports of measurements.
package machine
