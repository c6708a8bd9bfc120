package panics

import (
	"errors"
	"strings"
	"testing"
)

//go:noinline
func throw(v any) { panic(v) }

//go:noinline
func outOfRange(b []byte, i int) byte { return b[i] }

// recovered runs f and describes its panic.
func recovered(f func()) (text, place string) {
	defer func() {
		v := recover()
		text, place = Text(v), Place()
	}()
	f()
	return "", ""
}

func TestNoValues(t *testing.T) {
	secret := "key material"
	for _, v := range []any{secret, []byte(secret), errors.New(secret), struct{ s string }{secret}} {
		text, place := recovered(func() { throw(v) })
		if strings.Contains(text+place, secret) || !strings.Contains(text, "a value of type ") {
			t.Errorf("%T: %q at %q", v, text, place)
		}
		if first, _, _ := strings.Cut(place, " "); !strings.Contains(first, "panics.throw:") {
			t.Errorf("the place begins with %q, want throw", first)
		}
	}
}

func TestRuntimeError(t *testing.T) {
	text, place := recovered(func() { outOfRange(nil, 7) })
	if !strings.Contains(text, "index out of range") || !strings.Contains(place, "panics.outOfRange:") {
		t.Errorf("%q at %q", text, place)
	}
}

func TestPlaceIsBounded(t *testing.T) {
	var deep func(n int)
	deep = func(n int) {
		if n == 0 {
			panic("end")
		}
		deep(n - 1)
	}
	if _, place := recovered(func() { deep(1000) }); strings.Count(place, " ") > maxFrames {
		t.Errorf("%d frames", strings.Count(place, " "))
	}
}
