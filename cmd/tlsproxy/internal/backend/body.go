package backend

import (
	"io"
	"net/http"
	"sync"
)

// retryBody is a request's body that can be handed to a transport again as
// long as nothing was read from it: a transport that cannot connect closes it.
// A nil *retryBody is no body.
type retryBody struct {
	body io.ReadCloser

	mu      sync.Mutex
	read    bool
	err     error // of reading, but for io.EOF
	wanted  bool  // a transport has closed it
	settled bool  // no other attempt follows
	closed  bool
}

func newRetryBody(body io.ReadCloser) *retryBody {
	if body == nil || body == http.NoBody {
		return nil
	}
	return &retryBody{body: body}
}

func (b *retryBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	b.read = true
	b.mu.Unlock()
	n, err := b.body.Read(p)
	if err != nil && err != io.EOF {
		b.mu.Lock()
		b.err = err
		b.mu.Unlock()
	}
	return n, err
}

// Close closes the body, once, as soon as no other attempt can follow.
func (b *retryBody) Close() error {
	if b == nil {
		return nil
	}
	return b.close(func() { b.wanted = true })
}

// settle says that no other attempt follows.
func (b *retryBody) settle() {
	if b != nil {
		b.close(func() { b.settled = true })
	}
}

// close notes what note says and closes the body if it is time.
func (b *retryBody) close(note func()) error {
	b.mu.Lock()
	note()
	now := b.wanted && b.settled && !b.closed
	b.closed = b.closed || now
	b.mu.Unlock()
	if now {
		return b.body.Close()
	}
	return nil
}

func (b *retryBody) touched() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.read
}

func (b *retryBody) readError() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}
