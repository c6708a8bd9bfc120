package proxy

import (
	"errors"
	"net"
)

// maxHelloBytes bounds what is kept of a connection until its ClientHello is
// whole. crypto/tls takes messages of 64 KiB at most; the rest is for the
// headers of the records that it comes in.
const maxHelloBytes = 80 << 10

var errHelloTooLarge = errors.New("the ClientHello comes in too many pieces")

// refuse makes crypto/tls send an alert of ours in place of its own. It sends
// internal_error, in the clear, whatever GetConfigForClient fails with.
func (c *conn) refuse(alert uint8) { c.alertInstead = alert }

// fallSilent keeps what crypto/tls sends from now on from the client, which is
// to hear from somebody else.
func (c *conn) fallSilent() { c.silent = true }

// replaceAlert returns what to send for a record.
func (c *conn) replaceAlert(record []byte) []byte {
	if c.alertInstead == 0 || !isAlert(record) {
		return record
	}
	replaced := append([]byte(nil), record...)
	replaced[alertAt] = c.alertInstead
	return replaced
}

// keep remembers what was read, so that it can be passed on.
func (c *conn) keep(b []byte) error {
	if len(c.kept)+len(b) > maxHelloBytes {
		return errHelloTooLarge
	}
	c.kept = append(c.kept, b...)
	return nil
}

// forgetHello ends the keeping.
func (c *conn) forgetHello() { c.keeping, c.kept = false, nil }

// unread is a connection whose first bytes, which were read and kept, are read
// again.
type unread struct {
	*conn
	first []byte
}

func (u *unread) Read(b []byte) (int, error) {
	if len(u.first) > 0 {
		n := copy(b, u.first)
		u.first = u.first[n:]
		return n, nil
	}
	return u.conn.Read(b)
}

// CloseWrite ends the direction to the client.
func (c *conn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

var _ net.Conn = (*unread)(nil)
