// Package watch tells whether files have changed, by looking at them: that works
// on every file system and also where a symbolic link on the way is swapped.
//
// It reads no file, and starts nothing: whoever wants to know asks.
package watch
