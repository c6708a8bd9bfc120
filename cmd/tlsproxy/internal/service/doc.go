// Package service puts a proxy together from a configuration and runs it: it
// loads the certificates, opens the key exchange provider and the listeners,
// and closes everything in order. Errors name the line of the configuration
// that they come from.
package service
