package outcome

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
)

// Group is a key exchange group by name and code point.
type Group struct {
	Name string `json:"name"`
	ID   uint16 `json:"id"`
}

// GroupOf describes id.
func GroupOf(id tls.CurveID) Group { return Group{id.String(), uint16(id)} }

// Handshake is what was negotiated on one connection. After a failed handshake
// its fields hold what was known by then.
type Handshake struct {
	Version           string `json:"version,omitempty"` // "TLS 1.3"
	CipherSuite       string `json:"cipher_suite,omitempty"`
	Group             *Group `json:"group,omitempty"`
	HelloRetryRequest bool   `json:"hello_retry_request"`
	Resumed           bool   `json:"resumed"`
	ALPN              string `json:"alpn,omitempty"`
	ServerName        string `json:"server_name,omitempty"`
	Peer              string `json:"peer,omitempty"` // common name of the peer's certificate

	CertificateRequested bool `json:"certificate_requested,omitempty"` // of the client

	SharesSent  []Group `json:"shares_sent,omitempty"`  // by the client, in its first ClientHello
	HelloBytes  int     `json:"hello_bytes,omitempty"`  // size of the first ClientHello message
	HandshakeMS float64 `json:"handshake_ms,omitempty"` // from its start to its end, milliseconds

	Failure
}

// Fill takes what s says.
func (h *Handshake) Fill(s tls.ConnectionState) {
	h.HelloRetryRequest = s.HelloRetryRequest
	h.Resumed = s.DidResume
	h.ALPN = s.NegotiatedProtocol
	h.ServerName = s.ServerName
	if s.Version != 0 {
		h.Version = tls.VersionName(s.Version)
	}
	if s.CipherSuite != 0 {
		h.CipherSuite = tls.CipherSuiteName(s.CipherSuite)
	}
	if s.CurveID != 0 {
		g := GroupOf(s.CurveID)
		h.Group = &g
	}
	if len(s.PeerCertificates) > 0 {
		h.Peer = s.PeerCertificates[0].Subject.CommonName
	}
}

// Failure is why a connection failed; the zero value means that it did not.
type Failure struct {
	Error string `json:"error,omitempty"`
	Alert *Alert `json:"alert,omitempty"` // the alert received, if one was
	Exit  Exit   `json:"exit,omitempty"`
}

// Alert is a TLS alert (RFC 8446, section 6) by its number and by the name
// that crypto/tls gives it.
type Alert struct {
	Number uint8  `json:"number"`
	Name   string `json:"name"`
}

// Alerts that tests name.
const (
	CloseNotify           = 0
	UnexpectedMessage     = 10
	HandshakeFailure      = 40
	BadCertificate        = 42
	IllegalParameter      = 47
	UnknownCA             = 48
	DecodeError           = 50
	ProtocolVersion       = 70
	InternalError         = 80
	MissingExtension      = 109
	CertificateRequired   = 116
	NoApplicationProtocol = 120
)

// Exit is an exit status. An alert received has one of its own: AlertBase plus
// its number, so that handshake_failure is 140 and illegal_parameter 147.
type Exit int

// Exit statuses.
const (
	OK          Exit = 0
	Usage       Exit = 1 // the command line or a file that it names
	NoHook      Exit = 2 // a group that this build does not have
	Connect     Exit = 3 // no TCP connection
	Timeout     Exit = 4 // the time given was not enough
	Certificate Exit = 5 // the peer's certificate was refused here
	Closed      Exit = 6 // the peer closed the connection and sent no alert
	Local       Exit = 7 // TLS failed for another reason found here
	Application Exit = 8 // TLS worked, what was said through it did not
	AlertBase   Exit = 100
)

// TransportError marks the failure to make a TCP connection.
type TransportError struct{ Err error }

func (e *TransportError) Error() string { return e.Err.Error() }
func (e *TransportError) Unwrap() error { return e.Err }

// ApplicationError marks a wrong answer through a connection that works.
type ApplicationError struct{ Err error }

func (e *ApplicationError) Error() string { return e.Err.Error() }
func (e *ApplicationError) Unwrap() error { return e.Err }

// FailureOf classifies err; nil gives the zero Failure.
func FailureOf(err error) Failure {
	if err == nil {
		return Failure{}
	}
	f := Failure{Error: err.Error(), Exit: classify(err)}
	if number, ok := alertReceived(err); ok {
		f.Alert = &Alert{number, tls.AlertError(number).Error()}
		f.Exit = AlertBase + Exit(number)
	}
	return f
}

func classify(err error) Exit {
	var transport *TransportError
	var application *ApplicationError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &transport):
		return Connect
	case errors.As(err, &application):
		return Application
	case errors.As(err, &certificate):
		return Certificate
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Timeout
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return Closed
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return Timeout
	}
	return Local
}

// alertReceived finds the alert in what crypto/tls returns for one that was
// received: its type is not exported over TCP, but its text is that of
// tls.AlertError.
func alertReceived(err error) (uint8, bool) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return 0, false
	}
	for n := range 256 {
		if tls.AlertError(n).Error() == op.Err.Error() {
			return uint8(n), true
		}
	}
	return 0, false
}

// Summary is the outcome of many connections.
type Summary struct {
	Connections int            `json:"connections"`
	Failed      int            `json:"failed"`
	Resumed     int            `json:"resumed"`
	Retried     int            `json:"hello_retry_requests"`
	Groups      map[string]int `json:"groups"`             // connections by name of the group negotiated
	Failures    map[string]int `json:"failures,omitempty"` // failed connections by error
	Exit        Exit           `json:"exit,omitempty"`     // of the first failure
	Seconds     float64        `json:"seconds"`            // for all of them together
}

// maxFailures bounds how many different errors a Summary tells apart.
const maxFailures = 32

// Add counts h.
func (s *Summary) Add(h *Handshake) {
	s.Connections++
	if h.Resumed {
		s.Resumed++
	}
	if h.HelloRetryRequest {
		s.Retried++
	}
	if h.Group != nil {
		increment(&s.Groups, h.Group.Name)
	}
	if h.Exit == OK {
		return
	}
	s.Failed++
	if s.Exit == OK {
		s.Exit = h.Exit
	}
	key := h.Error
	if len(s.Failures) >= maxFailures && s.Failures[key] == 0 {
		key = fmt.Sprintf("others, beyond %d different errors", maxFailures)
	}
	increment(&s.Failures, key)
}

func increment(m *map[string]int, key string) {
	if *m == nil {
		*m = make(map[string]int)
	}
	(*m)[key]++
}
