// Package logtest has logs that tests can wait on.
package logtest

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
)

// Buffer is written by some goroutines and waited on by others. Its zero value is
// empty.
type Buffer struct {
	mu   sync.Mutex
	once sync.Once
	more *sync.Cond
	text bytes.Buffer
	over bool // nobody writes any more
}

func (b *Buffer) cond() *sync.Cond {
	b.once.Do(func() { b.more = sync.NewCond(&b.mu) })
	return b.more
}

// Write appends to the log.
func (b *Buffer) Write(p []byte) (int, error) {
	c := b.cond()
	b.mu.Lock()
	defer b.mu.Unlock()
	c.Broadcast()
	return b.text.Write(p)
}

// End says that nobody writes any more: what waits for something that has not come, or
// does so later, panics with the log.
func (b *Buffer) End() {
	c := b.cond()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	c.Broadcast()
}

// wait waits for more, for what is wanted is not there; b.mu is held.
func (b *Buffer) wait(wanted string) {
	if b.over {
		panic("logtest: the log has ended without " + wanted + ":\n" + b.text.String())
	}
	b.more.Wait()
}

// Find waits for text that matches and returns the last group of the match.
func (b *Buffer) Find(pattern string) string {
	expression := regexp.MustCompile(pattern)
	b.cond()
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		if m := expression.FindSubmatch(b.text.Bytes()); m != nil {
			return string(m[len(m)-1])
		}
		b.wait(pattern)
	}
}

// Take returns the log once it holds text, and begins a new one.
func (b *Buffer) Take(text string) string {
	b.cond()
	b.mu.Lock()
	defer b.mu.Unlock()
	for !strings.Contains(b.text.String(), text) {
		b.wait(text)
	}
	all := b.text.String()
	b.text.Reset()
	return all
}

// String returns the log.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
