package acme

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"go.uber.org/zap"
)

func TestMain(m *testing.M) {
	// certmagic bounds how often it asks an authority, and never ends what does so;
	// what keeps a lock's file fresh notices within seconds that the file is gone.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/caddyserver/certmagic.(*RingBufferRateLimiter).loop"),
		goleak.IgnoreAnyFunction("github.com/caddyserver/certmagic.keepLockfileFresh"))
}

// The protocol itself is tested against an authority, in interop/acme.

// lines is a log that can be waited on.
type lines struct {
	mu   sync.Mutex
	more *sync.Cond
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.more.Broadcast()
	return l.text.Write(p)
}

func (l *lines) wait(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !strings.Contains(l.text.String(), text) {
		l.more.Wait()
	}
}

func newLines() *lines {
	l := new(lines)
	l.more = sync.NewCond(&l.mu)
	return l
}

// TestWithoutAnAuthority: one that can't be reached is told of, and its names have
// no certificate, which is an error that callers can fall back on.
func TestWithoutAnAuthority(t *testing.T) {
	log := newLines()
	m, err := New(Options{Directory: "https://127.0.0.1:1/directory", Storage: t.TempDir(), Address: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2},
		Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Manage([]string{"a.example", "B.example"}); err != nil {
		t.Fatal(err)
	}
	log.wait("127.0.0.1:1")
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	for name, serves := range map[string]bool{"a.example": true, "A.Example": true, "b.example": true, "c.example": false, "": false} {
		if m.Serves(name) != serves {
			t.Errorf("serves %q: %v", name, !serves)
		}
		hello := &tls.ClientHelloInfo{ServerName: name, Conn: near}
		if cert, err := m.Certificate(hello); !errors.Is(err, errNone) || cert != nil {
			t.Errorf("%q: %v", name, err)
		}
		if m.Challenge(hello) != nil {
			t.Errorf("%q: a handshake like any other is taken for a challenge", name)
		}
		hello.SupportedProtos = []string{"acme-tls/1"}
		if got := m.Challenge(hello) != nil; got != serves {
			t.Errorf("%q: challenge answered: %v", name, got)
		}
		hello.SupportedProtos = []string{"acme-tls/1", "h2"}
		if m.Challenge(hello) != nil {
			t.Errorf("%q: two protocols are taken for a challenge", name)
		}
	}
	if err := m.Manage([]string{"b.example"}); err != nil || m.Serves("a.example") || !m.Serves("b.example") {
		t.Errorf("a name that is gone is served (%v)", err)
	}
}

// TestStorageAtTheEnd: close waits for locks and what is written under them, and
// lets nobody begin.
func TestStorageAtTheEnd(t *testing.T) {
	ctx := t.Context()
	s := newStorage(t.TempDir())
	if err := s.Lock(ctx, "held"); err != nil {
		t.Fatal(err)
	}
	if got, err := s.TryLock(ctx, "tried"); !got || err != nil {
		t.Fatal(got, err)
	}
	if s.close(0) {
		t.Error("closed under two locks")
	}
	if err := s.Unlock(ctx, "tried"); err != nil {
		t.Error(err)
	}
	if got, err := s.TryLock(ctx, "tried"); got || err != errClosed {
		t.Errorf("locked after its end: %v, %v", got, err)
	}
	if err := s.Lock(ctx, "other"); err != errClosed {
		t.Errorf("locked after its end: %v", err)
	}
	if err := s.Store(ctx, "issued", []byte("certificate")); err != nil {
		t.Errorf("under the lock: %v", err)
	}
	if err := s.Unlock(ctx, "held"); err != nil {
		t.Error(err)
	}
	<-s.idle
	if err := s.Store(ctx, "late", nil); err != errClosed {
		t.Errorf("stored after its end: %v", err)
	}
	if err := s.Delete(ctx, "issued"); err != errClosed || !s.Exists(ctx, "issued") {
		t.Errorf("deleted after its end: %v", err)
	}
}

// TestLog: lines keep their levels and fields, and have no stack traces.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	z := zap.New(&core{log}).Named("x").With(zap.String("b", "two"))
	z.Debug("not written")
	z.Info("one", zap.Int("a", 1))
	z.Error("three", zap.Error(errors.New("four")), zap.Strings("names", []string{"c", "d"}))
	z.Warn("five")
	want := "level=INFO msg=\"ACME: one\" b=two a=1\nlevel=ERROR msg=\"ACME: three\" b=two error=four names=\"[c d]\"\nlevel=WARN msg=\"ACME: five\" b=two\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
	if z.Core().Enabled(zap.DebugLevel) != log.Enabled(context.Background(), slog.LevelDebug) {
		t.Error("another level is enabled")
	}
}
