// Package logging makes tlsproxy's slog loggers, bounds and escapes what peers
// put into them, and keeps a flood of one kind of line out of the log.
//
// It knows nothing of what is logged.
package logging
