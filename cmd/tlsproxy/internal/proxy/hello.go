package proxy

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"slices"
	"time"
)

// helloRoom is what a connection that says nothing holds for its ClientHello, in bytes.
const helloRoom = 512

// awaitHello reads ahead until the first record is there, or what is there begins no
// handshake record: only then it is worth to have a stack and a state of TLS. A client
// that sends a part of a record has us hold five times that part at most, which is
// enough for most ClientHellos to take two reads.
func (c *conn) awaitHello() error {
	c.Conn.SetReadDeadline(c.handshakeDeadline())
	for missing(c.ahead) > 0 {
		if len(c.ahead) == cap(c.ahead) {
			c.ahead = slices.Grow(c.ahead, max(helloRoom, min(4*len(c.ahead), missing(c.ahead))))
		}
		n, err := wire{c}.Read(c.ahead[len(c.ahead):cap(c.ahead)])
		c.ahead = c.ahead[:len(c.ahead)+n]
		if n > 0 {
			c.received.Store(true)
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return context.DeadlineExceeded
		case err != nil:
			return err
		}
	}
	c.spoke.Store(true)
	return c.Conn.SetReadDeadline(time.Time{})
}

// missing is how many bytes the first record lacks at least; 0 if it is no handshake
// record, which is for crypto/tls to say (RFC 8446, section 5.1).
func missing(record []byte) int {
	const header, handshake, most = 5, 22, 1 << 14
	switch {
	case len(record) > 0 && record[0] != handshake:
		return 0
	case len(record) < header:
		return header - len(record)
	}
	n := int(binary.BigEndian.Uint16(record[header-2:]))
	if n > most {
		return 0
	}
	return max(header+n-len(record), 0)
}

// read begins with what was read ahead. While the client is waited for, the handshake has
// no turn.
func (c *conn) read(b []byte) (int, error) {
	if len(c.ahead) == 0 {
		if !c.established.Load() {
			c.turn.pause()
			defer c.turn.resume()
		}
		return wire{c}.Read(b)
	}
	n := copy(b, c.ahead)
	if c.ahead = c.ahead[n:]; len(c.ahead) == 0 {
		c.ahead = nil
	}
	return n, nil
}

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
