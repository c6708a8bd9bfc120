// Package groups is where tlsproxy names package tlsext: the key exchange
// groups by name, and whether this binary can serve the ones of ours.
//
// It knows nothing of configurations or connections.
package groups
