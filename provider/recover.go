package provider

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
)

// recoverPiece turns a panic of an engine into an error of the requests it was
// serving, and logs where it happened. Deferred.
func recoverPiece(log *slog.Logger, engine string, piece []request) {
	v := recover()
	if v == nil {
		return
	}
	fail(piece, errEnginePanic)
	log.Error("provider: an engine panicked", "engine", engine,
		"operation", piece[0].op.String(), "panic", panicText(v), "stack", callers())
}

// panicText says what was thrown without printing arbitrary values, which could
// hold key material: only errors of the runtime and constant strings speak.
func panicText(v any) string {
	switch v := v.(type) {
	case runtime.Error:
		return v.Error()
	case string:
		return v
	}
	return fmt.Sprintf("a value of type %T", v)
}

// callers lists function:line of the panicking goroutine. Unlike debug.Stack it
// prints no argument words, which may be bytes of a key.
func callers() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs)])
	var b strings.Builder
	for {
		f, more := frames.Next()
		fmt.Fprintf(&b, "%s:%d ", f.Function, f.Line)
		if !more {
			return strings.TrimSpace(b.String())
		}
	}
}
