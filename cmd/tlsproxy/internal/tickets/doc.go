// Package tickets seals the sessions that clients resume, and opens them again.
//
// A ticket is bound to a scope, in which the caller puts whatever a session must
// not leave: it opens within that scope only. Keys are replaced as time passes.
// They are random and the process's own, or derived from a secret or fetched from
// a store that several proxies share, so that a client can resume at each of them.
//
// The package knows no connections and no configuration.
package tickets
