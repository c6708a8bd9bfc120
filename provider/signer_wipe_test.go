//go:build !race

package provider

import (
	"bytes"
	"runtime"
	"testing"
	"time"
)

// A Signer that is garbage leaves no copy of its key. The test looks at the copy while
// the collector may be wiping it, which the race detector would not like.
func TestSignerWipes(t *testing.T) {
	p := openTest(t, Config{KeyPoolSize: -1})
	key := p256Key(t)
	s := newSigner(t, p, key)
	copied := s.key.number
	want, err := key.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	signAll(t, s, 1, 1)
	if !bytes.Equal(copied, want) {
		t.Error("it is wiped too soon")
	}
	runtime.KeepAlive(s)
	for until := time.Now().Add(time.Minute); !bytes.Equal(copied, make([]byte, digestSize)); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it is not wiped")
		}
		runtime.GC()
	}
	signAll(t, newSigner(t, p, key), 1, 1)
}
