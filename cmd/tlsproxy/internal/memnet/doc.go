// Package memnet is a network inside the process for tests that run on
// testing/synctest's clock, which stands still while a real socket is waited
// for. Only tests import it.
package memnet
