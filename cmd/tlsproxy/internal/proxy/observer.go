package proxy

import (
	"crypto/tls"
	"time"
)

// Observer is told what a Server does. Its methods run in the goroutines of
// handshakes and requests: they must be quick and may be called concurrently.
type Observer interface {
	// ObserveHandshake is called when a handshake has ended, but for those of
	// clients that left without a word.
	ObserveHandshake(HandshakeEvent)
	// ObserveShed is called for each connection that was closed at once because
	// of the limit with that key in the configuration.
	ObserveShed(limit string)
	// ObserveExpired is called for each connection that has ended because of its
	// lifetime, or, if cut, that had to be cut after it.
	ObserveExpired(cut bool)
	// ObserveRequest is called when a request has ended, upgraded connections
	// included.
	ObserveRequest(RequestEvent)
}

// HandshakeEvent describes a handshake that has ended.
type HandshakeEvent struct {
	Outcome       Outcome
	Version       uint16      // as crypto/tls numbers them; 0: none agreed on
	Group         tls.CurveID // 0: none agreed on
	Resumed       bool
	Duration      time.Duration // from accept on
	AlertSent     string        // in the clear, as crypto/tls names alerts; empty: none
	AlertReceived string        // the same
}

// Outcome says how a handshake ended.
type Outcome string

// The outcomes.
const (
	HandshakeDone     Outcome = "done"
	HandshakeTimeout  Outcome = "timeout"
	HandshakeAborted  Outcome = "aborted"  // by the client closing the connection, or by the end of the drain
	HandshakeRefused  Outcome = "refused"  // by an alert of either side
	HandshakeInternal Outcome = "internal" // by a fault of ours
)

// RequestEvent describes a request that has ended.
type RequestEvent struct {
	Protocol string // "HTTP/1.1", "HTTP/2.0"
	Status   int    // 0: the client left, or was cut off, before an answer
	Duration time.Duration
	Bytes    int64  // of the answer's body
	TraceID  string // of a trace that is recorded; "": none is
}

// silent is the Observer of a Server that nobody observes.
type silent struct{}

func (silent) ObserveHandshake(HandshakeEvent) {}
func (silent) ObserveShed(string)              {}
func (silent) ObserveExpired(bool)             {}
func (silent) ObserveRequest(RequestEvent)     {}
