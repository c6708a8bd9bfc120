package main

import (
	"bytes"
	"crypto/tls"
	"net"
	"slices"

	"github.com/ctrutls/ctrutls/interop/internal/clienthello"
	"github.com/ctrutls/ctrutls/interop/internal/outcome"
)

// helloConn reads along as crypto/tls writes its first ClientHello, and may cut
// that message into other records and writes: records are not part of the
// transcript, so the handshake does not notice. crypto/tls writes from one
// goroutine until the hello is out.
type helloConn struct {
	net.Conn
	recordSize, segmentSize int // 0 leaves what crypto/tls writes

	records []byte // written so far
	message []byte // the whole ClientHello, once it is out
}

func (c *helloConn) Write(p []byte) (int, error) {
	if c.message != nil {
		return c.Conn.Write(p)
	}
	c.records = append(c.records, p...)
	msg, err := clienthello.NewReader(bytes.NewReader(c.records)).Message()
	if err == nil {
		c.message = msg
	}
	if c.recordSize == 0 && c.segmentSize == 0 {
		return c.Conn.Write(p)
	}
	if err != nil { // the rest comes with the next record
		return len(p), nil
	}
	out := c.records
	if c.recordSize > 0 {
		out = clienthello.Records(clienthello.FirstVersion, msg, c.recordSize)
	}
	return len(p), c.writeSegments(out)
}

func (c *helloConn) writeSegments(b []byte) error {
	size := c.segmentSize
	if size == 0 {
		size = len(b)
	}
	for segment := range slices.Chunk(b, size) {
		if _, err := c.Conn.Write(segment); err != nil {
			return err
		}
	}
	return nil
}

// sent returns the size of the ClientHello in bytes and the groups of its key
// shares; none if no hello was written.
func (c *helloConn) sent() (size int, groups []outcome.Group) {
	h, err := clienthello.Parse(c.message)
	if err != nil {
		return 0, nil
	}
	shares, err := h.KeyShares()
	if err != nil {
		return len(c.message), nil
	}
	for _, s := range shares {
		groups = append(groups, outcome.GroupOf(tls.CurveID(s.Group)))
	}
	return len(c.message), groups
}
