// Package hook gives interop/client and interop/server the groups of tlsext
// where they were built with the hook in crypto/tls, and says so where they
// were not: then they are stock Go peers.
package hook
