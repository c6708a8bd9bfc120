package provider

import (
	"log/slog"

	"github.com/ctrutls/ctrutls/internal/panics"
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
		"operation", piece[0].op.String(), "panic", panics.Text(v), "place", panics.Place())
}
