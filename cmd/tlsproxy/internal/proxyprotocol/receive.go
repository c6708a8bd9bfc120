package proxyprotocol

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/pires/go-proxyproto"
	"github.com/pires/go-proxyproto/tlvparse"
)

// Trust says whose headers are believed.
type Trust struct {
	Prefixes []netip.Prefix // that the proxies connect from
	Unix     bool           // and whoever connects to a Unix socket
	Optional bool           // a connection of theirs can be without a header, and others can connect too
	Timeout  time.Duration  // from accept to the header's end
}

// Trusts reports whether a connection from an address can have a header.
func (t *Trust) Trusts(from net.Addr) bool {
	switch at := from.(type) {
	case *net.UnixAddr:
		return t.Unix
	case *net.TCPAddr:
		ip := at.AddrPort().Addr().Unmap().WithZone("")
		for _, p := range t.Prefixes {
			if p.Contains(ip) {
				return true
			}
		}
	}
	return false
}

// Header is what the proxy in front told of a connection.
type Header struct {
	// Source and Destination are the client's end and the one that it connected to,
	// TCP's or a Unix socket's. They are nil where the proxy speaks for itself, as in its
	// health checks, or does not know.
	Source, Destination net.Addr

	// Of version 2; empty where the header does not have them.
	ALPN      string
	Authority string // the host name that the client asked for
	UniqueID  string // of the connection, any bytes, 128 at most
	SSL       *tlvparse.PP2SSL
}

// Bounds of what a header may hold.
const (
	maxUniqueID = 128 // bytes (section 2.2.5)
	bufferBytes = 512 // a header with what HAProxy sends by default, and the first bytes behind it
)

// errNone says that a connection has no header where one is required.
var errNone = errors.New("proxyprotocol: the connection does not begin with a PROXY header")

// Read reads the header at the head of a connection that t trusts, in bounded
// time, and sets no deadline that stays. It returns what was read beyond it as
// well. A header that is optional and absent is nil. The error is io.EOF if the
// connection ended without a byte, however it did: health checks reset theirs.
//
// A line of version 1 whose two addresses are of different families is faulty: both
// have the family that the line names, and what does not match exactly has to be refused
// (section 2.1). Who has to tell of an IPv4 client at an IPv6 address, or the other way
// round, writes IPv4 as IPv6 (::ffff:192.0.2.1), as Client.Format does.
func (t *Trust) Read(c net.Conn) (h *Header, ahead []byte, err error) {
	if err := c.SetReadDeadline(time.Now().Add(t.Timeout)); err != nil {
		return nil, nil, fmt.Errorf("proxyprotocol: %w", err)
	}
	first := &firstLine{Reader: c}
	r := bufio.NewReaderSize(first, bufferBytes)
	raw, err := proxyproto.Read(r)
	switch {
	case err != nil && (errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(first.err, os.ErrDeadlineExceeded)):
		return nil, nil, fmt.Errorf("proxyprotocol: no PROXY header within %v", t.Timeout)
	case !first.any && (errors.Is(err, proxyproto.ErrNoProxyProtocol) || errors.Is(err, syscall.ECONNRESET)):
		return nil, nil, io.EOF
	case errors.Is(err, proxyproto.ErrNoProxyProtocol) && t.Optional: // nothing was taken from the buffer
	case errors.Is(err, proxyproto.ErrNoProxyProtocol):
		return nil, nil, errNone
	case err != nil:
		return nil, nil, fmt.Errorf("proxyprotocol: a faulty PROXY header: %w", err)
	default:
		if h, err = newHeader(raw); err != nil {
			return nil, nil, err
		}
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return nil, nil, fmt.Errorf("proxyprotocol: %w", err)
	}
	ahead, _ = r.Peek(r.Buffered())
	return h, ahead, nil
}

// firstLine makes the header of version 1 come in one piece: the library wants
// it so, and senders should send it so, but the network may not.
type firstLine struct {
	io.Reader
	begun bool
	any   bool  // some byte has come
	err   error // that cut it off
}

// maxLine is the longest header of version 1 (section 2.1).
const maxLine = 107

// Read reads on at the start of a connection while what has come is the
// beginning of such a header.
func (f *firstLine) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	f.any = f.any || n > 0
	if f.begun {
		return n, err
	}
	f.begun = true
	for err == nil && n < min(maxLine, len(b)) && beginsLine(b[:n]) {
		var more int
		more, err = f.Reader.Read(b[n:])
		n += more
	}
	if n > 0 {
		f.err, err = err, nil // the bytes come first
	}
	return n, err
}

// beginsLine reports whether b is a header of version 1 without its end.
func beginsLine(b []byte) bool {
	known := min(len(b), len(proxyproto.SIGV1))
	return bytes.Equal(b[:known], proxyproto.SIGV1[:known]) && bytes.IndexByte(b, '\n') < 0
}

// newHeader takes from a header what is of use.
func newHeader(raw *proxyproto.Header) (*Header, error) {
	h := new(Header)
	if raw.Command.IsLocal() {
		return h, nil // whatever else is in it has to be discarded (section 2.2)
	}
	if raw.TransportProtocol.IsDatagram() {
		return nil, errors.New("proxyprotocol: the PROXY header is of a datagram")
	}
	h.Source, h.Destination = raw.SourceAddr, raw.DestinationAddr
	tlvs, err := raw.TLVs()
	if err == nil {
		err = checkSum(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("proxyprotocol: a faulty PROXY header: %w", err)
	}
	for _, tlv := range tlvs {
		switch tlv.Type {
		case proxyproto.PP2_TYPE_ALPN:
			h.ALPN = string(tlv.Value)
		case proxyproto.PP2_TYPE_AUTHORITY:
			h.Authority = string(tlv.Value)
		case proxyproto.PP2_TYPE_UNIQUE_ID:
			if len(tlv.Value) > maxUniqueID {
				return nil, fmt.Errorf("proxyprotocol: the unique ID of the PROXY header has %d bytes; %d are allowed", len(tlv.Value), maxUniqueID)
			}
			h.UniqueID = string(tlv.Value)
		case proxyproto.PP2_TYPE_SSL:
			if h.SSL, err = newSSL(tlv.Value); err != nil {
				return nil, fmt.Errorf("proxyprotocol: what the PROXY header tells of TLS: %w", err)
			}
		}
	}
	return h, nil
}

// newSSL takes apart what a header tells of TLS (section 2.2.6). Texts in it are passed
// on as they came: HAProxy has a common name from the client's certificate, which need
// not be UTF-8, and tlvparse.SSL would refuse the client for that.
func newSSL(value []byte) (*tlvparse.PP2SSL, error) {
	const fixed = 5
	if len(value) < fixed {
		return nil, proxyproto.ErrTruncatedTLV
	}
	tlvs, err := proxyproto.SplitTLVs(value[fixed:])
	if err != nil {
		return nil, err
	}
	return &tlvparse.PP2SSL{Client: value[0], Verify: binary.BigEndian.Uint32(value[1:]), TLV: tlvs}, nil
}

// fixedBytes is how long a header of version 2 is up to its addresses, and
// addressBytes how long those are (section 2.2).
const fixedBytes = 16

var addressBytes = map[proxyproto.AddressFamilyAndProtocol]int{proxyproto.TCPv4: 12, proxyproto.TCPv6: 36}

var errSum = errors.New("its checksum is another")

// checkSum compares a header with the CRC32C in it, if it has one (section 2.2.3).
// It looks at those with addresses of TCP alone: others do not format to the bytes
// that came.
func checkSum(h *proxyproto.Header) error {
	addresses, known := addressBytes[h.TransportProtocol]
	if h.Version != 2 || !known {
		return nil
	}
	whole, err := h.Format()
	if err != nil {
		return err
	}
	rest := whole[fixedBytes+addresses:]
	for len(rest) > 0 { // the TLVs, whose lengths have been checked
		kind, end := proxyproto.PP2Type(rest[0]), 3+int(binary.BigEndian.Uint16(rest[1:]))
		if value := rest[3:end]; kind == proxyproto.PP2_TYPE_CRC32C {
			if len(value) != crc32.Size {
				return errSum
			}
			want := binary.BigEndian.Uint32(value)
			clear(value)
			if crc32.Checksum(whole, crc32.MakeTable(crc32.Castagnoli)) != want {
				return errSum
			}
			return nil
		}
		rest = rest[end:]
	}
	return nil
}
