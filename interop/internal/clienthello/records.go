package clienthello

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/crypto/cryptobyte"
)

// Record content types (RFC 8446, section 5.1).
const (
	RecordChangeCipherSpec = 20
	RecordAlert            = 21
	RecordHandshake        = 22
)

// MaxRecord is the largest payload of a plaintext record, in bytes.
const MaxRecord = 1 << 14

// maxMessage bounds a handshake message that is read, in bytes; crypto/tls has
// the same bound.
const maxMessage = 1 << 16

// recordHeader is type, legacy version and length, in bytes.
const recordHeader = 5

// Versions in the header of a plaintext record (RFC 8446, section 5.1): that of
// a connection's first message, and that of every later one, the second
// ClientHello included.
const (
	FirstVersion = 0x0301
	LaterVersion = 0x0303
)

// Records puts a handshake message into plaintext records of that version and
// of at most size bytes of payload each. A size outside 1 to MaxRecord means
// MaxRecord.
func Records(version uint16, msg []byte, size int) []byte {
	if size < 1 || size > MaxRecord {
		size = MaxRecord
	}
	var out []byte
	for piece := range slices.Chunk(msg, size) {
		out = append(out, RecordHandshake)
		out = binary.BigEndian.AppendUint16(out, version)
		out = binary.BigEndian.AppendUint16(out, uint16(len(piece)))
		out = append(out, piece...)
	}
	return out
}

// Reader takes plaintext records off a stream and joins what they carry.
type Reader struct {
	r       io.Reader
	message []byte // handshake bytes that are not yet a whole message
}

// NewReader reads records from r. It reads no byte past the last record that
// it needs.
func NewReader(r io.Reader) *Reader { return &Reader{r: r} }

// Alert is an alert that the peer sent in the clear; it is an error.
type Alert struct {
	Level, Description uint8
}

func (a *Alert) Error() string {
	return fmt.Sprintf("clienthello: alert %d (level %d)", a.Description, a.Level)
}

// Message returns the next handshake message, its header included. An alert is
// returned as an *Alert; ChangeCipherSpec records are skipped.
func (r *Reader) Message() ([]byte, error) {
	for {
		if msg, err := r.take(); msg != nil || err != nil {
			return msg, err
		}
		typ, payload, err := readRecord(r.r)
		if err != nil {
			return nil, err
		}
		switch typ {
		case RecordHandshake:
			r.message = append(r.message, payload...)
		case RecordChangeCipherSpec:
		case RecordAlert:
			if len(payload) != 2 {
				return nil, fmt.Errorf("clienthello: an alert of %d bytes", len(payload))
			}
			return nil, &Alert{payload[0], payload[1]}
		default:
			return nil, fmt.Errorf("clienthello: a record of type %d", typ)
		}
	}
}

// take cuts one whole message off what was read; nil if there is none.
func (r *Reader) take() ([]byte, error) {
	if len(r.message) < 4 {
		return nil, nil
	}
	size := 4 + int(r.message[1])<<16 + int(binary.BigEndian.Uint16(r.message[2:]))
	if size > maxMessage {
		return nil, fmt.Errorf("clienthello: a handshake message of %d bytes; the most is %d", size, maxMessage)
	}
	if len(r.message) < size {
		return nil, nil
	}
	msg := slices.Clone(r.message[:size])
	r.message = r.message[size:]
	return msg, nil
}

func readRecord(r io.Reader) (typ uint8, payload []byte, err error) {
	var header [recordHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	size := int(binary.BigEndian.Uint16(header[3:]))
	if size > MaxRecord+256 {
		return 0, nil, fmt.Errorf("clienthello: a record of %d bytes", size)
	}
	payload = make([]byte, size)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return header[0], payload, nil
}

// Answer is what a ServerHello says about the key exchange.
type Answer struct {
	Retry bool   // it is a HelloRetryRequest
	Group uint16 // the group selected
	Share []byte // the server's share; none in a HelloRetryRequest
}

// retryRandom marks a HelloRetryRequest (RFC 8446, section 4.1.3).
var retryRandom = []byte("\xCF\x21\xAD\x74\xE5\x9A\x61\x11\xBE\x1D\x8C\x02\x1E\x65\xB8\x91\xC2\xA2\x11\x16\x7A\xBB\x8C\x5E\x07\x9E\x09\xE2\xC8\xA8\x33\x9C")

// ParseAnswer reads a ServerHello message of TLS 1.3.
func ParseAnswer(msg []byte) (*Answer, error) {
	s := cryptobyte.String(msg)
	var typ, compression uint8
	var version, suite uint16
	var random []byte
	var body, session, extensions cryptobyte.String
	if !s.ReadUint8(&typ) || typ != 2 || !s.ReadUint24LengthPrefixed(&body) || !s.Empty() {
		return nil, errors.New("clienthello: not one whole ServerHello message")
	}
	if !body.ReadUint16(&version) || !body.ReadBytes(&random, 32) || !body.ReadUint8LengthPrefixed(&session) ||
		!body.ReadUint16(&suite) || !body.ReadUint8(&compression) || !body.ReadUint16LengthPrefixed(&extensions) {
		return nil, errors.New("clienthello: the ServerHello is cut off")
	}
	a := &Answer{Retry: slices.Equal(random, retryRandom)}
	for !extensions.Empty() {
		var typ uint16
		var data cryptobyte.String
		if !extensions.ReadUint16(&typ) || !extensions.ReadUint16LengthPrefixed(&data) {
			return nil, errors.New("clienthello: an extension of the ServerHello is cut off")
		}
		if typ == ExtKeyShare && !a.readKeyShare(data) {
			return nil, errors.New("clienthello: the ServerHello's key_share has a wrong length")
		}
	}
	return a, nil
}

func (a *Answer) readKeyShare(data cryptobyte.String) bool {
	if !data.ReadUint16(&a.Group) {
		return false
	}
	if a.Retry {
		return data.Empty()
	}
	var share cryptobyte.String
	ok := data.ReadUint16LengthPrefixed(&share) && data.Empty()
	a.Share = share
	return ok
}
