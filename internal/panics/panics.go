// Package panics describes a recovered panic without values: what was thrown,
// or the arguments of the functions that threw it, may hold key material. It
// knows nothing of this module.
package panics

import (
	"fmt"
	"runtime"
	"strings"
)

// maxFrames bounds the stack that Place walks.
const maxFrames = 32

// Text says what was thrown: a runtime error by its own words, which name
// lengths and types, anything else by its type alone.
func Text(v any) string {
	if err, ok := v.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("a value of type %T", v)
}

// Place lists function:line of the goroutine that panicked, from where it did.
// It is called in the deferred function that recovered. Unlike debug.Stack it
// prints no argument words.
func Place() string {
	pcs := make([]uintptr, maxFrames)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var thrown, all []string
	for {
		f, more := frames.Next()
		all = append(all, fmt.Sprintf("%s:%d", f.Function, f.Line))
		if f.Function == "runtime.gopanic" { // what is above belongs to the recovery
			thrown = []string{}
		} else if thrown != nil {
			thrown = append(thrown, all[len(all)-1])
		}
		if !more {
			break
		}
	}
	if thrown == nil {
		thrown = all
	}
	return strings.Join(thrown, " ")
}
