package logging

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Limiter passes a number of lines a second and counts the others. At the end
// of a second in which it held lines back it logs how many. Its methods may be
// called concurrently.
type Limiter struct {
	log       *slog.Logger
	what      string
	perSecond int

	mu         sync.Mutex
	closed     bool
	start      time.Time // of the second being counted
	passed     int
	suppressed int
	level      slog.Level  // the highest among the suppressed
	report     *time.Timer // running while suppressed > 0
}

// NewLimiter returns a Limiter for lines that tell of what (a plural, such as
// "failed handshakes"). Close it.
func NewLimiter(log *slog.Logger, what string, perSecond int) *Limiter {
	return &Limiter{log: log, what: what, perSecond: perSecond}
}

// Log writes a line unless too many were written in this second. attrs is
// called only for a line that is written.
func (l *Limiter) Log(level slog.Level, message string, attrs func() []slog.Attr) {
	ctx := context.Background()
	if !l.log.Enabled(ctx, level) || !l.allow(level) {
		return
	}
	l.log.LogAttrs(ctx, level, message, attrs()...)
}

// Write makes a Limiter the destination of a log.Logger: each call is a line
// of level Warn. What it is given can hold text from peers.
func (l *Limiter) Write(line []byte) (int, error) {
	text := string(line)
	if n := len(text); n > 0 && text[n-1] == '\n' {
		text = text[:n-1]
	}
	l.Log(slog.LevelWarn, Peer(text, 1024), func() []slog.Attr { return nil })
	return len(line), nil
}

// allow counts a line and reports whether it may be written.
func (l *Limiter) allow(level slog.Level) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.start) >= time.Second {
		l.start, l.passed = now, 0
	}
	if l.passed < l.perSecond || l.closed {
		l.passed++
		return true
	}
	if l.suppressed == 0 {
		l.level = level
		l.report = time.AfterFunc(time.Until(l.start.Add(time.Second)), l.flush)
	}
	l.suppressed++
	l.level = max(l.level, level)
	return false
}

// flush logs how many lines were held back since the last time.
func (l *Limiter) flush() {
	l.mu.Lock()
	n, level := l.suppressed, l.level
	l.suppressed = 0
	l.mu.Unlock()
	if n > 0 {
		l.log.LogAttrs(context.Background(), level, "log lines suppressed",
			slog.String("about", l.what), slog.Int("suppressed", n), slog.Int("limit_per_second", l.perSecond))
	}
}

// Close logs what was held back. Lines logged later are not limited.
func (l *Limiter) Close() {
	l.mu.Lock()
	l.closed = true
	if l.report != nil {
		l.report.Stop()
	}
	l.mu.Unlock()
	l.flush()
}
