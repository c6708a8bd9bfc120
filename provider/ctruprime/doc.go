// Package ctruprime implements the key encapsulation mechanism CTRU-Prime.
package ctruprime
