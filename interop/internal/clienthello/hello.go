package clienthello

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/crypto/cryptobyte"
)

// Extension types of RFC 8446, section 4.2, and of RFC 7685 (padding).
const (
	ExtServerName          = 0
	ExtSupportedGroups     = 10
	ExtSignatureAlgorithms = 13
	ExtALPN                = 16
	ExtPadding             = 21
	ExtSupportedVersions   = 43
	ExtPSKModes            = 45
	ExtKeyShare            = 51
)

// TypeClientHello is the handshake message type of a ClientHello.
const TypeClientHello = 1

// Extension is one extension of a hello, its data uninterpreted.
type Extension struct {
	Type uint16
	Data []byte
}

// KeyShare is a KeyShareEntry (RFC 8446, section 4.2.8). Nothing ties the
// length of Data to the group.
type KeyShare struct {
	Group uint16
	Data  []byte
}

// Hello is a ClientHello. Its extensions keep their order.
type Hello struct {
	Version      uint16 // legacy_version
	Random       [32]byte
	SessionID    []byte // at most 255 bytes
	CipherSuites []uint16
	Compression  []byte // at most 255 bytes
	Extensions   []Extension
}

// New returns the hello of a TLS 1.3 client that offers all three cipher suites
// of RFC 8446 and these groups and shares. The caller fills in Random.
func New(serverName string, groups []uint16, shares []KeyShare) *Hello {
	h := &Hello{
		Version:      0x0303,
		SessionID:    make([]byte, 32),
		CipherSuites: []uint16{0x1301, 0x1302, 0x1303},
		Compression:  []byte{0},
	}
	h.Set(ExtServerName, build(func(b *cryptobyte.Builder) {
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
			b.AddUint8(0) // host_name
			b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes([]byte(serverName)) })
		})
	}))
	h.Set(ExtSupportedVersions, []byte{2, 0x03, 0x04})
	h.Set(ExtSignatureAlgorithms, list16(0x0403, 0x0804, 0x0807)) // ECDSA P-256, RSA-PSS, Ed25519
	h.Set(ExtPSKModes, []byte{1, 1})
	h.SetGroups(groups)
	h.SetKeyShares(shares)
	return h
}

// Set replaces the extension of this type, or appends it.
func (h *Hello) Set(typ uint16, data []byte) {
	if i := h.index(typ); i >= 0 {
		h.Extensions[i].Data = data
		return
	}
	h.Extensions = append(h.Extensions, Extension{typ, data})
}

// Remove takes the extensions of this type out.
func (h *Hello) Remove(typ uint16) {
	h.Extensions = slices.DeleteFunc(h.Extensions, func(e Extension) bool { return e.Type == typ })
}

// SetGroups replaces supported_groups.
func (h *Hello) SetGroups(groups []uint16) { h.Set(ExtSupportedGroups, list16(groups...)) }

// SetALPN replaces application_layer_protocol_negotiation (RFC 7301). A name
// is 1 to 255 bytes long.
func (h *Hello) SetALPN(protocols ...string) {
	h.Set(ExtALPN, build(func(b *cryptobyte.Builder) {
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
			for _, p := range protocols {
				b.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes([]byte(p)) })
			}
		})
	}))
}

// SetKeyShares replaces key_share.
func (h *Hello) SetKeyShares(shares []KeyShare) {
	h.Set(ExtKeyShare, build(func(b *cryptobyte.Builder) {
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
			for _, s := range shares {
				b.AddUint16(s.Group)
				b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(s.Data) })
			}
		})
	}))
}

// Pad adds a padding extension that brings the message of Marshal to size
// bytes; size must be at least 4 bytes more than it has, and 64 KiB at most.
func (h *Hello) Pad(size int) error {
	h.Remove(ExtPadding)
	now, err := h.Marshal()
	if err != nil {
		return err
	}
	if size < len(now)+4 {
		return fmt.Errorf("clienthello: cannot pad %d bytes to %d", len(now), size)
	}
	h.Set(ExtPadding, make([]byte, size-len(now)-4))
	return nil
}

// KeyShares returns the entries of key_share, none where it is absent.
func (h *Hello) KeyShares() ([]KeyShare, error) {
	data, ok := h.data(ExtKeyShare)
	if !ok {
		return nil, nil
	}
	var list cryptobyte.String
	if !data.ReadUint16LengthPrefixed(&list) || !data.Empty() {
		return nil, errors.New("clienthello: key_share has a wrong length")
	}
	var shares []KeyShare
	for !list.Empty() {
		var s KeyShare
		var share cryptobyte.String
		if !list.ReadUint16(&s.Group) || !list.ReadUint16LengthPrefixed(&share) {
			return nil, errors.New("clienthello: key_share is cut off")
		}
		s.Data = share
		shares = append(shares, s)
	}
	return shares, nil
}

// Groups returns supported_groups, none where it is absent.
func (h *Hello) Groups() ([]uint16, error) {
	data, ok := h.data(ExtSupportedGroups)
	if !ok {
		return nil, nil
	}
	groups, ok := readList16(&data)
	if !ok || !data.Empty() {
		return nil, errors.New("clienthello: supported_groups has a wrong length")
	}
	return groups, nil
}

// Marshal returns the handshake message, its 4-byte header included.
func (h *Hello) Marshal() ([]byte, error) {
	b := cryptobyte.NewBuilder(nil)
	b.AddUint8(TypeClientHello)
	b.AddUint24LengthPrefixed(func(b *cryptobyte.Builder) {
		b.AddUint16(h.Version)
		b.AddBytes(h.Random[:])
		b.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(h.SessionID) })
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
			for _, s := range h.CipherSuites {
				b.AddUint16(s)
			}
		})
		b.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(h.Compression) })
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
			for _, e := range h.Extensions {
				b.AddUint16(e.Type)
				b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(e.Data) })
			}
		})
	})
	msg, err := b.Bytes()
	if err != nil {
		return nil, fmt.Errorf("clienthello: a field is too long for its length: %w", err)
	}
	return msg, nil
}

// Parse reads a handshake message that is a ClientHello.
func Parse(msg []byte) (*Hello, error) {
	s := cryptobyte.String(msg)
	var typ uint8
	var body, session, suites, compression, extensions cryptobyte.String
	h := new(Hello)
	if !s.ReadUint8(&typ) || typ != TypeClientHello || !s.ReadUint24LengthPrefixed(&body) || !s.Empty() {
		return nil, errors.New("clienthello: not one whole ClientHello message")
	}
	if !body.ReadUint16(&h.Version) || !body.CopyBytes(h.Random[:]) ||
		!body.ReadUint8LengthPrefixed(&session) ||
		!body.ReadUint16LengthPrefixed(&suites) ||
		!body.ReadUint8LengthPrefixed(&compression) {
		return nil, errors.New("clienthello: the fixed fields are cut off")
	}
	h.SessionID, h.Compression = session, compression
	for !suites.Empty() {
		var id uint16
		if !suites.ReadUint16(&id) {
			return nil, errors.New("clienthello: the list of cipher suites has an odd length")
		}
		h.CipherSuites = append(h.CipherSuites, id)
	}
	if body.Empty() {
		return h, nil
	}
	if !body.ReadUint16LengthPrefixed(&extensions) || !body.Empty() {
		return nil, errors.New("clienthello: the extensions have a wrong length")
	}
	for !extensions.Empty() {
		var e Extension
		var data cryptobyte.String
		if !extensions.ReadUint16(&e.Type) || !extensions.ReadUint16LengthPrefixed(&data) {
			return nil, errors.New("clienthello: an extension is cut off")
		}
		e.Data = data
		h.Extensions = append(h.Extensions, e)
	}
	return h, nil
}

func (h *Hello) index(typ uint16) int {
	return slices.IndexFunc(h.Extensions, func(e Extension) bool { return e.Type == typ })
}

func (h *Hello) data(typ uint16) (cryptobyte.String, bool) {
	i := h.index(typ)
	if i < 0 {
		return nil, false
	}
	return h.Extensions[i].Data, true
}

// build returns what f adds; the lists built here are far below their bounds.
func build(f func(*cryptobyte.Builder)) []byte {
	b := cryptobyte.NewBuilder(nil)
	f(b)
	return b.BytesOrPanic()
}

func list16(values ...uint16) []byte {
	return build(func(b *cryptobyte.Builder) {
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) {
			for _, v := range values {
				b.AddUint16(v)
			}
		})
	})
}

func readList16(s *cryptobyte.String) ([]uint16, bool) {
	var list cryptobyte.String
	if !s.ReadUint16LengthPrefixed(&list) {
		return nil, false
	}
	var values []uint16
	for !list.Empty() {
		var v uint16
		if !list.ReadUint16(&v) {
			return nil, false
		}
		values = append(values, v)
	}
	return values, true
}
