package backend

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// stream bounds the waiting within one request over HTTP/2, whose connection
// has no deadlines of that request's own.
type stream struct {
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	taking  *time.Timer // runs while the backend has to take a piece of the request
	giving  *time.Timer // runs while it has to send a piece of the answer
	expired bool        // one of them ran out
}

var errStalled = errors.New("the backend stalled")

// expire ends the request.
func (s *stream) expire() {
	s.mu.Lock()
	s.expired = true
	s.mu.Unlock()
	s.cancel(errStalled)
}

// arm starts a timer of s, which is made where it is needed first.
func (s *stream) arm(t **time.Timer, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *t == nil {
		*t = time.AfterFunc(after, s.expire)
		return
	}
	(*t).Reset(after)
}

func (s *stream) disarm(t **time.Timer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *t != nil {
		(*t).Stop()
	}
}

// handed and taken stand around the time that the backend has for a piece of the
// request.
func (s *stream) handed(within time.Duration) { s.arm(&s.taking, within) }
func (s *stream) taken()                      { s.disarm(&s.taking) }

// await and arrived stand around the time that it has for a piece of the answer.
func (s *stream) await(within time.Duration) { s.arm(&s.giving, within) }
func (s *stream) arrived()                   { s.disarm(&s.giving) }

// explain replaces the error of a request that expired.
func (s *stream) explain(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.expired {
		return os.ErrDeadlineExceeded
	}
	return err
}

// end lets go of the timers and of the context.
func (s *stream) end(err error) error {
	err = s.explain(err)
	s.taken()
	s.arrived()
	s.cancel(nil)
	return err
}
