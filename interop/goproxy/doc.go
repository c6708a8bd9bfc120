// Command goproxy is what tlsproxy is measured against: the reverse proxy that one writes
// in Go in a few lines, net/http and httputil.ReverseProxy with their defaults, built by
// the plain go command. It also makes the certificate and is the backend of such
// measurements, so that they need nothing else.
//
// It knows nothing of this project's groups, and is no proxy to run: it bounds nothing.
package main
