// Package prometheus holds tlsproxy's alert rules, and tests that they and the
// dashboard in deploy/grafana ask for nothing that is not exported: docs/metrics.md,
// which is tested against the program, says what is. It knows nothing of the program.
package prometheus
