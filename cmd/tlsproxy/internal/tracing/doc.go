// Package tracing makes OpenTelemetry spans of requests, of what they wait for, and
// of connections, and sends a share of them to a receiver of OTLP over HTTP. It knows
// neither configuration nor backends, and opens no listener. Nothing of a request
// but what an access log tells is in a span.
package tracing
