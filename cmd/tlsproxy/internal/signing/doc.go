// Package signing has a provider make the signatures of certificates' keys.
//
// It knows keys and certificates only: it must not know where they come from, or
// for which connection they are.
package signing
