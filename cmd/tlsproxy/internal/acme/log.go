package acme

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap/zapcore"
)

// core writes what certmagic logs to a slog.Logger. It writes no stack traces.
type core struct {
	log *slog.Logger
}

var levels = map[zapcore.Level]slog.Level{
	zapcore.DebugLevel: slog.LevelDebug,
	zapcore.InfoLevel:  slog.LevelInfo,
	zapcore.WarnLevel:  slog.LevelWarn,
}

func levelOf(l zapcore.Level) slog.Level {
	if level, ok := levels[l]; ok {
		return level
	}
	return slog.LevelError
}

// Enabled reports whether lines of a level are written.
func (c *core) Enabled(l zapcore.Level) bool { return c.log.Enabled(context.Background(), levelOf(l)) }

// With returns a core that writes fields with each line.
func (c *core) With(fields []zapcore.Field) zapcore.Core {
	return &core{c.log.With(attrs(fields)...)}
}

// Check has a line written by c if its level is.
func (c *core) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

// Write writes a line.
func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	c.log.Log(context.Background(), levelOf(e.Level), "ACME: "+e.Message, attrs(fields)...)
	return nil
}

// Sync does nothing: every line is written at once.
func (c *core) Sync() error { return nil }

// attrs turns fields into slog's arguments, in the order of their keys.
func attrs(fields []zapcore.Field) (all []any) {
	encoder := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(encoder)
	}
	for _, key := range slices.Sorted(maps.Keys(encoder.Fields)) {
		if key == "errorVerbose" {
			continue // with a stack trace; the error is there without it
		}
		all = append(all, key, encoder.Fields[key])
	}
	return all
}
