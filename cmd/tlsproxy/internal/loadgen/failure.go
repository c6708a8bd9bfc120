package loadgen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
)

// Causes of failures that are counted together.
const (
	causeTimeout     = "timed out"
	causeRefused     = "connection refused"
	causeReset       = "connection reset by the server"
	causeClosed      = "connection closed by the server"
	causePorts       = "no local port was free"
	causeDescriptors = "out of file descriptors"
	causeCertificate = "certificate not accepted"
	causeOther       = "other"
	alertReceived    = "alert received: "
)

// unexpected is a handshake or an answer that came, but not the one asked for. It is
// a cause of its own, so its texts are few.
type unexpected string

func (u unexpected) Error() string { return string(u) }

// cause names what a connection failed of. The number of names is bounded, whatever a
// server does.
func cause(err error) string {
	var op *net.OpError
	var certificate *tls.CertificateVerificationError
	var wrong unexpected
	switch {
	case errors.As(err, &op) && op.Op == "remote error":
		return alertReceived + strings.TrimPrefix(op.Err.Error(), "tls: ")
	case errors.As(err, &certificate):
		return causeCertificate
	case errors.As(err, &wrong):
		return string(wrong)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return causeTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return causeRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return causeReset
	case errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EADDRINUSE):
		return causePorts
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return causeDescriptors
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return causeClosed
	}
	return causeOther
}

// Hint says what to do about a cause, if there is something.
func Hint(cause string) string {
	switch cause {
	case causePorts:
		return "closed connections hold their local ports for a while: give several --source addresses, or several addresses of the server"
	case causeDescriptors:
		return "raise the limit of open files (ulimit -n) or lower the concurrency"
	case causeCertificate:
		return "name the authorities with --ca and the server with --server-name, or give --insecure"
	}
	return ""
}

func wrongGroup(got, want string) error {
	return unexpected(fmt.Sprintf("group %s instead of %s", got, want))
}
