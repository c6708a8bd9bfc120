package outcome

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFailureOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Exit
	}{
		{nil, OK},
		{&TransportError{os.ErrDeadlineExceeded}, Connect},
		{fmt.Errorf("x: %w", &ApplicationError{io.EOF}), Application},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, Certificate},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, Timeout},
		{io.EOF, Closed},
		{errors.New("tls: CurvePreferences includes unsupported curve"), Local},
		{&net.OpError{Op: "remote error", Err: tls.AlertError(HandshakeFailure)}, AlertBase + HandshakeFailure},
		{fmt.Errorf("x: %w", &net.OpError{Op: "remote error", Err: tls.AlertError(IllegalParameter)}), AlertBase + IllegalParameter},
	} {
		f := FailureOf(c.err)
		if f.Exit != c.want {
			t.Errorf("%v: exit %d, want %d", c.err, f.Exit, c.want)
		}
		if got := f.Alert != nil; got != (c.want >= AlertBase) {
			t.Errorf("%v: alert %v", c.err, f.Alert)
		}
	}
}

// The text of every alert that crypto/tls can receive leads back to its number.
func TestAlertReceived(t *testing.T) {
	for n := range 256 {
		got, ok := alertReceived(&net.OpError{Op: "remote error", Err: tls.AlertError(n)})
		if !ok || int(got) != n {
			t.Errorf("alert %d was read as %d, %v", n, got, ok)
		}
	}
	if _, ok := alertReceived(&net.OpError{Op: "local error", Err: tls.AlertError(HandshakeFailure)}); ok {
		t.Error("an alert that was sent counts as received")
	}
}

func TestSummary(t *testing.T) {
	var s Summary
	s.Add(&Handshake{Group: &Group{"X25519", 29}, Resumed: true})
	for i := range maxFailures + 3 {
		s.Add(&Handshake{HelloRetryRequest: true, Failure: Failure{Error: fmt.Sprint(i), Exit: Closed}})
	}
	if s.Connections != maxFailures+4 || s.Failed != maxFailures+3 || s.Resumed != 1 || s.Retried != s.Failed ||
		s.Groups["X25519"] != 1 || s.Exit != Closed || len(s.Failures) != maxFailures+1 {
		t.Errorf("%+v", s)
	}
}
