package proxyprotocol

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"

	"github.com/pires/go-proxyproto"
	"github.com/pires/go-proxyproto/tlvparse"
)

// Version is that of a header that is sent.
type Version int

// The versions.
const (
	None Version = iota // no header
	V1
	V2
)

// Client is what a backend is told of a client's connection.
type Client struct {
	Source, Destination net.Addr
	ServerName          string               // that it asked for; "": none
	TLS                 *tls.ConnectionState // nil: its TLS does not end here
	Group               string               // of its key exchange, if TLS is there
	Front               *Header              // what a proxy in front told of it; nil: there is none
}

// Format returns the header for a client. Addresses that the version cannot
// express are left out.
func (c *Client) Format(v Version) ([]byte, error) {
	h := proxyproto.HeaderProxyFromAddrs(byte(v), c.Source, c.Destination)
	if v == V2 {
		if err := h.SetTLVs(c.tlvs()); err != nil {
			return nil, fmt.Errorf("proxyprotocol: %w", err)
		}
	}
	header, err := h.Format()
	if err != nil {
		return nil, fmt.Errorf("proxyprotocol: %w", err)
	}
	return header, nil
}

// Local returns the header for a connection of the proxy's own, such as a
// health check.
func Local(v Version) []byte {
	header, err := proxyproto.HeaderProxyFromAddrs(byte(v), nil, nil).Format()
	if err != nil {
		panic("proxyprotocol: " + err.Error()) // there is nothing in it
	}
	return header
}

// tlvs are what version 2 tells beside addresses. What a proxy in front said of
// TLS is passed on where TLS does not end here.
func (c *Client) tlvs() (all []proxyproto.TLV) {
	add := func(kind proxyproto.PP2Type, value string) {
		if value != "" {
			all = append(all, proxyproto.TLV{Type: kind, Value: []byte(value)})
		}
	}
	front := c.Front
	if front == nil {
		front = new(Header)
	}
	ssl, alpn := front.SSL, front.ALPN
	if c.TLS != nil {
		ssl, alpn = c.ssl(), c.TLS.NegotiatedProtocol
	}
	add(proxyproto.PP2_TYPE_ALPN, alpn)
	if c.ServerName != "" {
		add(proxyproto.PP2_TYPE_AUTHORITY, c.ServerName)
	} else {
		add(proxyproto.PP2_TYPE_AUTHORITY, front.Authority)
	}
	add(proxyproto.PP2_TYPE_UNIQUE_ID, front.UniqueID)
	if ssl != nil {
		if tlv, err := ssl.Marshal(); err == nil { // what came in a header fits into one
			all = append(all, tlv)
		}
	}
	return all
}

// notPresented is what verify is where the client showed no certificate: not
// zero (section 2.2.6).
const notPresented = 1

// maxCommonName bounds what a client's certificate can put into a header, in bytes. RFC
// 5280, appendix A.1, allows 64 characters. A longer one is left out: cut, it could be
// another's, and whole, more than a backend or a header takes.
const maxCommonName = 4 * 64

// ssl describes the client's TLS (section 2.2.6). A certificate that was shown
// has been verified.
func (c *Client) ssl() *tlvparse.PP2SSL {
	s := &tlvparse.PP2SSL{Client: tlvparse.PP2_BITFIELD_CLIENT_SSL, Verify: notPresented}
	add := func(kind proxyproto.PP2Type, value string) {
		if value != "" {
			s.TLV = append(s.TLV, proxyproto.TLV{Type: kind, Value: []byte(value)})
		}
	}
	add(proxyproto.PP2_SUBTYPE_SSL_VERSION, strings.Replace(tls.VersionName(c.TLS.Version), "TLS ", "TLSv", 1))
	add(proxyproto.PP2_SUBTYPE_SSL_CIPHER, cipherName(c.TLS.CipherSuite))
	add(proxyproto.PP2_SUBTYPE_SSL_GROUP, c.Group)
	if certs := c.TLS.PeerCertificates; len(certs) > 0 {
		s.Verify = 0
		s.Client |= tlvparse.PP2_BITFIELD_CLIENT_CERT_SESS
		if !c.TLS.DidResume {
			s.Client |= tlvparse.PP2_BITFIELD_CLIENT_CERT_CONN
		}
		if name := certs[0].Subject.CommonName; len(name) <= maxCommonName {
			add(proxyproto.PP2_SUBTYPE_SSL_CN, strings.ToValidUTF8(name, "\ufffd"))
		}
	}
	return s
}

// cipherName is OpenSSL's name of a cipher suite, which is what HAProxy sends:
// of TLS 1.3 that of the RFCs, of TLS 1.2 one of its own.
func cipherName(id uint16) string {
	name, old := strings.CutPrefix(tls.CipherSuiteName(id), "TLS_ECDHE_")
	if !old {
		return tls.CipherSuiteName(id)
	}
	return "ECDHE-" + strings.NewReplacer("_WITH", "", "AES_128", "AES128", "AES_256", "AES256", "_CBC", "", "POLY1305_SHA256", "POLY1305", "_", "-").Replace(name)
}
