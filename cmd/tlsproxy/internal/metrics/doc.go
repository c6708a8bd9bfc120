// Package metrics counts what the proxy does and exports it for Prometheus. It
// knows no configuration and opens no socket. No label's values are a client's
// to choose, so the number of series is bounded by the configuration and by
// what crypto/tls can say.
package metrics
