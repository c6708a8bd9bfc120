package acme

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
)

// storage is a folder that certmagic's goroutines leave alone once it is closed.
// They can't be waited for, but each writes through it, most under a lock that is a
// file: one left behind would make the next process wait until it looks abandoned.
type storage struct {
	certmagic.FileStorage

	mu     sync.Mutex
	users  int // locks held, and writes under way
	closed bool
	idle   chan struct{} // closed when closed and without users
}

func newStorage(folder string) *storage {
	return &storage{FileStorage: certmagic.FileStorage{Path: folder}, idle: make(chan struct{})}
}

var errClosed = errors.New("acme: the proxy is ending")

// begin counts a user. Who holds a lock may write on when the storage is being
// closed: what an authority has issued is not thrown away.
func (s *storage) begin(lock bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed && (lock || s.users == 0) {
		return errClosed
	}
	s.users++
	return nil
}

func (s *storage) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	s.settle()
}

// settle tells close, as soon as that was called and there are no users. s.mu is held.
func (s *storage) settle() {
	if s.closed && s.users == 0 {
		close(s.idle)
	}
}

// close lets nobody else begin, and waits for those that have, if not for ever.
// It reports whether all have ended. It is called once.
func (s *storage) close(patience time.Duration) bool {
	s.mu.Lock()
	s.closed = true
	s.settle()
	s.mu.Unlock()
	select {
	case <-s.idle:
		return true
	case <-time.After(patience):
		return false
	}
}

func (s *storage) Lock(ctx context.Context, name string) error {
	if err := s.begin(true); err != nil {
		return err
	}
	if err := s.FileStorage.Lock(ctx, name); err != nil {
		s.end()
		return err
	}
	return nil
}

func (s *storage) TryLock(ctx context.Context, name string) (bool, error) {
	if err := s.begin(true); err != nil {
		return false, err
	}
	got, err := s.FileStorage.TryLock(ctx, name)
	if !got || err != nil {
		s.end()
	}
	return got, err
}

func (s *storage) Unlock(ctx context.Context, name string) error {
	defer s.end()
	return s.FileStorage.Unlock(ctx, name)
}

func (s *storage) Store(ctx context.Context, key string, value []byte) error {
	if err := s.begin(false); err != nil {
		return err
	}
	defer s.end()
	return s.FileStorage.Store(ctx, key, value)
}

func (s *storage) Delete(ctx context.Context, key string) error {
	if err := s.begin(false); err != nil {
		return err
	}
	defer s.end()
	return s.FileStorage.Delete(ctx, key)
}
