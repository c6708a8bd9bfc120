package backend

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// retryBody is a request's body that can be handed to a transport again as
// long as nothing was read from it: a transport that cannot connect closes it.
// A nil *retryBody is no body.
type retryBody struct {
	body  io.ReadCloser
	left  int64 // bytes until its end; -1: it ends where body says so
	ended bool  // it has given its last byte

	mu      sync.Mutex
	stream  *stream       // that takes it; nil: its connection has deadlines
	within  time.Duration // how long that may take over a piece; 0: no bound
	read    bool
	err     error // of reading, but for io.EOF
	wanted  bool  // a transport has closed it
	settled bool  // no other attempt follows
	closed  bool
}

// newRetryBody wraps the body of r. Where its length is known, its end is told
// with its last byte: a transport asks once more to be sure, by when a backend may
// have answered, the request be over, and the body closed. That would look like a
// broken request and cost the answer. Trailers come with the end that the body
// itself tells.
func newRetryBody(r *http.Request) *retryBody {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	b := &retryBody{body: r.Body, left: -1}
	if r.ContentLength > 0 && len(r.Trailer) == 0 {
		b.left = r.ContentLength
	}
	return b
}

// begin hands the body to an attempt, and bounds how long that may take over a
// piece of it.
func (b *retryBody) begin(try *attempt, within time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stream, b.within, b.wanted = try.stream, within, false
}

// again has the form of http.Request.GetBody: a transport whose connection was
// closed before it wrote anything begins anew on another.
func (b *retryBody) again() (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.read {
		return nil, errBodyRead
	}
	b.wanted = false
	return b, nil
}

var errBodyRead = errors.New("the request's body cannot be read twice")

// Read is called when the piece before has been taken.
func (b *retryBody) Read(p []byte) (int, error) {
	if b.ended {
		return 0, io.EOF
	}
	b.mu.Lock()
	b.read = true
	stream, within := b.stream, b.within
	b.mu.Unlock()
	if stream != nil && within > 0 {
		stream.taken()
	}
	n, err := b.body.Read(p)
	if b.left > 0 {
		if b.left -= int64(n); b.left <= 0 && err == nil {
			err = io.EOF
		}
	}
	b.ended = err == io.EOF
	if stream != nil && within > 0 && n > 0 {
		stream.handed(within)
	}
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
	return b.close(func() {
		b.wanted = true
		if b.stream != nil {
			b.stream.taken()
		}
	})
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
