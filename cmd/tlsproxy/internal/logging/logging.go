package logging

import (
	"io"
	"log/slog"
	"strings"
	"unicode/utf8"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

// New returns a logger that writes to w as the configuration says, and its level,
// which can be changed while it is in use.
func New(w io.Writer, c config.Log) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(c.Level.Slog())
	options := &slog.HandlerOptions{Level: level}
	if c.Format == config.FormatJSON {
		return slog.New(slog.NewJSONHandler(w, options)), level
	}
	return slog.New(slog.NewTextHandler(w, options)), level
}

// Peer makes text that a peer chose fit for a log: everything but printable
// ASCII is written as Go would escape it, and what goes beyond limit bytes of
// input is cut off and marked with "...". A backslash is escaped too, so that
// no peer can write what looks like an escape.
func Peer(text string, limit int) string {
	cut := len(text) > limit
	if cut {
		text = text[:limit]
	}
	if !cut && plain(text) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		writeEscaped(&b, text[i:i+size], r)
		i += size
	}
	if cut {
		b.WriteString("...")
	}
	return b.String()
}

// plain reports whether Peer leaves text as it is.
func plain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' || text[i] == '\\' {
			return false
		}
	}
	return true
}

// writeEscaped writes one character, whose bytes are raw.
func writeEscaped(b *strings.Builder, raw string, r rune) {
	const hex = "0123456789abcdef"
	if len(raw) == 1 && r >= ' ' && r <= '~' && r != '\\' {
		b.WriteByte(raw[0])
		return
	}
	for i := range len(raw) {
		b.WriteString(`\x`)
		b.WriteByte(hex[raw[i]>>4])
		b.WriteByte(hex[raw[i]&15])
	}
}
