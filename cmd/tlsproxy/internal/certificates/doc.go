// Package certificates holds certificate chains with their keys and chooses one
// for a handshake by the server name that the client asks for.
//
// All of them are in memory as they are encoded, so that no handshake waits for
// a disk and a file that is replaced by a faulty one does no harm; those in use
// are held parsed in a bounded cache. A Store never changes: reloading makes
// another, which shares with the old what is the same in the files.
//
// The package knows neither configurations nor connections.
package certificates
