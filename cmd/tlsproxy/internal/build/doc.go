// Package build says which program this is, from what the go command noted in it.
// It knows nothing of what the program does.
package build
