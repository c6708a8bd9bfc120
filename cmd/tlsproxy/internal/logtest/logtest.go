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

// Find waits for text that matches and returns the last group of the match.
func (b *Buffer) Find(pattern string) string {
	expression := regexp.MustCompile(pattern)
	c := b.cond()
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		if m := expression.FindSubmatch(b.text.Bytes()); m != nil {
			return string(m[len(m)-1])
		}
		c.Wait()
	}
}

// Take returns the log once it holds text, and begins a new one.
func (b *Buffer) Take(text string) string {
	c := b.cond()
	b.mu.Lock()
	defer b.mu.Unlock()
	for !strings.Contains(b.text.String(), text) {
		c.Wait()
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
