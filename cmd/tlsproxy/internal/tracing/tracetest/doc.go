// Package tracetest is a receiver of OTLP over HTTP for tests. It knows what is on
// the wire, and nothing of who sends it.
package tracetest
