// Package certificates loads certificate chains with their keys and chooses
// one for a handshake by the server name that the client asks for.
//
// It knows neither configurations nor connections.
package certificates
