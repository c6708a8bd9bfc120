package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// position is a place in the file, both counted from 1.
type position struct{ line, column int }

// Error is one fault of a configuration file.
type Error struct {
	File         string // "" if the configuration was not read from a file
	Line, Column int    // from 1; 0 if the file as a whole is at fault
	Message      string
}

func (e *Error) Error() string {
	if e.File == "" {
		return "tlsproxy: " + e.Message
	}
	if e.Line == 0 {
		return fmt.Sprintf("tlsproxy: %s: %s", e.File, e.Message)
	}
	return fmt.Sprintf("tlsproxy: %s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
}

// Errors are the faults of one file in the order of their places, at least one.
type Errors []*Error

// maxErrorLines bounds how many faults are printed.
const maxErrorLines = 50

// Error gives one fault a line.
func (es Errors) Error() string {
	var lines []string
	for _, e := range es[:min(len(es), maxErrorLines)] {
		lines = append(lines, e.Error())
	}
	if more := len(es) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("tlsproxy: and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// Unwrap makes each fault visible to errors.As.
func (es Errors) Unwrap() []error {
	all := make([]error, len(es))
	for i, e := range es {
		all[i] = e
	}
	return all
}

// Sorted returns es in the order of places, or nil if there are none.
func (es Errors) Sorted() error {
	if len(es) == 0 {
		return nil
	}
	slices.SortStableFunc(es, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return es
}

// Errorf makes an error that blames the value at path, such as
// "certificates[0].cert" or "backends.urls[1]". Where the file does not hold
// that value (it has its default) the nearest enclosing place is blamed.
func (c *Config) Errorf(path, format string, args ...any) *Error {
	at := c.place(path)
	return &Error{File: c.file, Line: at.line, Column: at.column, Message: fmt.Sprintf(format, args...)}
}

// File is the name of the file that c was read from, "" if it was not read from
// one.
func (c *Config) File() string { return c.file }

// place finds the position of path or of what encloses it.
func (c *Config) place(path string) position {
	for {
		if at, ok := c.positions[path]; ok {
			return at
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return position{1, 1}
		}
		path = path[:cut]
	}
}
