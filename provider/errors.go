package provider

import (
	"errors"
	"fmt"
)

// ErrClosed is returned by every call on a Provider after Close.
var ErrClosed = errors.New("provider: closed; open another with provider.Open")

// PeerError reports a fault of the peer: a key share of the wrong length, a
// public key with a coefficient out of range, an X25519 point of low order. In
// TLS it is answered with illegal_parameter (RFC 8446, section 4.2.8). Every
// other error of this package is ours, not the peer's.
type PeerError struct{ Err error }

func (e *PeerError) Error() string { return "provider: peer's key share refused: " + e.Err.Error() }

func (e *PeerError) Unwrap() error { return e.Err }

// PeerFault is always true. Packages that can't import this one, such as the
// hook in crypto/tls, recognise the error by this method.
func (e *PeerError) PeerFault() bool { return true }

func peerErrorf(format string, args ...any) error {
	return &PeerError{fmt.Errorf(format, args...)}
}

// errEnginePanic is what callers see of a panic in an engine. The log has more.
var errEnginePanic = errors.New("provider: the engine panicked; the log names the place")
