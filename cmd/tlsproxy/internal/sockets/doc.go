// Package sockets opens what a server listens on: addresses of TCP, Unix
// sockets, and sockets that somebody else has opened and handed to the process.
//
// It knows nothing of what is spoken there, nor of configurations.
package sockets
