// Package acme has tlsproxy obtain certificates from Pebble, the ACME authority
// that Let's Encrypt tests clients with. All of them run as processes.
package acme
