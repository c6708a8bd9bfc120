// Package certs makes the certificates of the interop tests: a certificate
// authority, a server's certificate for localhost and a client's, as PEM files
// in a folder, because the programs under test are separate processes.
package certs
