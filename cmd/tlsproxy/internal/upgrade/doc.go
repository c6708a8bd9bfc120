// Package upgrade has a process start its successor, the same program as it
// is on disk by now, which takes its sockets over. The predecessor serves on
// until the successor says that it does, and for good if it never does.
//
// Sockets, words and a secret go over inherited descriptors, which an environment variable
// names; a few lines, where libraries for it want to own listening, signals and
// the process's end as well.
//
// The package knows nothing of what is served, nor of signals.
package upgrade
