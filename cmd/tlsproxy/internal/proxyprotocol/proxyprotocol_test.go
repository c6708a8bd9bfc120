package proxyprotocol

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/pires/go-proxyproto"
	"github.com/pires/go-proxyproto/tlvparse"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func tcp(address string) *net.TCPAddr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))
}

func TestTrusts(t *testing.T) {
	trust := &Trust{Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}}
	for address, want := range map[string]bool{"10.1.2.3:4": true, "[::ffff:10.1.2.3]:4": true, "11.1.2.3:4": false, "[2001:db8::1]:5": true, "[2001:db9::1]:5": false, "[fe80::1%eth0]:1": false} {
		if got := trust.Trusts(tcp(address)); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
	local := &net.UnixAddr{Net: "unix", Name: "/run/a"}
	if trust.Trusts(local) || !(&Trust{Unix: true}).Trusts(local) || trust.Trusts(new(net.UDPAddr)) {
		t.Error("Unix sockets")
	}
}

// stream is a connection whose bytes are known.
type stream struct {
	net.Conn
	io.Reader
}

func (s stream) Read(b []byte) (int, error)      { return s.Reader.Read(b) }
func (s stream) SetReadDeadline(time.Time) error { return nil }

// header2 is a header of version 2 with TLVs for a client on IPv4.
func header2(t *testing.T, command, family byte, tlvs ...proxyproto.TLV) string {
	t.Helper()
	raw, err := proxyproto.JoinTLVs(tlvs)
	if err != nil {
		t.Fatal(err)
	}
	b := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), command, family)
	b = binary.BigEndian.AppendUint16(b, uint16(12+len(raw)))
	b = append(b, 192, 0, 2, 1, 192, 0, 2, 2, 0, 80, 1, 187)
	return string(append(b, raw...))
}

const (
	proxied, local = 0x21, 0x20
	tcp4, udp4     = 0x11, 0x12
)

// TestRead reads good headers and bad ones, whole and byte by byte, and finds what
// stands behind them.
func TestRead(t *testing.T) {
	ssl := tlvparse.PP2SSL{Client: 1, Verify: 1, TLV: []proxyproto.TLV{{Type: proxyproto.PP2_SUBTYPE_SSL_VERSION, Value: []byte("TLSv1.3")}}}
	sslTLV, err := ssl.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	type tlv = proxyproto.TLV
	const rest = "\x16\x03\x01 what TLS sends"
	for _, test := range []struct {
		name, in    string
		optional    bool
		source      string // "": none
		want        Header
		errHas      string
		none, whole bool // no header; the reading of single bytes is not tried
	}{
		{name: "version 1", in: "PROXY TCP4 192.0.2.1 192.0.2.2 80 443\r\n", source: "192.0.2.1:80"},
		{name: "version 1, IPv6", in: "PROXY TCP6 2001:db8::1 2001:db8::2 80 443\r\n", source: "[2001:db8::1]:80"},
		{name: "version 1, unknown", in: "PROXY UNKNOWN ffff:f::1 what ever\r\n"},
		{name: "version 2", in: header2(t, proxied, tcp4), source: "192.0.2.1:80"},
		{name: "version 2, local", in: header2(t, local, tcp4)},
		{name: "version 2, local, with what is no TLV", in: header2(t, local, tcp4)[:14] + "\x00\x0fno TLVs at all!"},
		{name: "version 2, local, of no family", in: "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x02\x05\x00"},
		{name: "version 2, TLVs", source: "192.0.2.1:80", in: header2(t, proxied, tcp4,
			tlv{Type: proxyproto.PP2_TYPE_ALPN, Value: []byte("h2")}, tlv{Type: proxyproto.PP2_TYPE_AUTHORITY, Value: []byte("a.example")},
			tlv{Type: proxyproto.PP2_TYPE_NOOP}, tlv{Type: proxyproto.PP2_TYPE_UNIQUE_ID, Value: []byte("\x00id")}, tlv{Type: 0xEA, Value: []byte("vpc")}, sslTLV),
			want: Header{ALPN: "h2", Authority: "a.example", UniqueID: "\x00id", SSL: &ssl}},
		{name: "longer than the buffer", source: "192.0.2.1:80", in: header2(t, proxied, tcp4, tlv{Type: 0xE0, Value: make([]byte, 3*bufferBytes)})},
		{name: "absent", in: "", optional: true, none: true, whole: true},
		{name: "absent, begins alike", in: "\r\n\r\n\x00", optional: true, none: true, whole: true},
		{name: "absent where required", in: "GET / HTTP/1.1\r\n", errHas: "does not begin with a PROXY header"},
		{name: "datagram", in: header2(t, proxied, udp4), errHas: "of a datagram"},
		{name: "too long", in: header2(t, proxied, tcp4, tlv{Type: 0xE0, Value: make([]byte, 4096)}), errHas: "faulty PROXY header: proxyproto: invalid length"},
		{name: "line without end", in: "PROXY TCP4 " + strings.Repeat("1", 200), errHas: "faulty PROXY header"},
		{name: "line of another family", in: "PROXY TCP4 2001:db8::1 2001:db8::2 80 443\r\n", errHas: "faulty PROXY header: proxyproto: invalid address"},
		{name: "line of two families", in: "PROXY TCP6 192.0.2.1 2001:db8::2 80 443\r\n", errHas: "faulty PROXY header: proxyproto: invalid address"},
		{name: "line of two families, IPv4 first", in: "PROXY TCP4 192.0.2.1 2001:db8::2 80 443\r\n", errHas: "faulty PROXY header: proxyproto: invalid address"},
		{name: "IPv4 within IPv6", in: "PROXY TCP6 ::ffff:192.0.2.1 2001:db8::2 80 443\r\n", source: "192.0.2.1:80"},
		{name: "port", in: "PROXY TCP4 192.0.2.1 192.0.2.2 80 65536\r\n", errHas: "invalid port"},
		{name: "TLV that is cut off", in: strings.TrimSuffix(header2(t, proxied, tcp4, tlv{Type: 1, Value: []byte("h2")}), "2") + "", errHas: "faulty PROXY header", whole: true},
		{name: "unique ID", in: header2(t, proxied, tcp4, tlv{Type: proxyproto.PP2_TYPE_UNIQUE_ID, Value: make([]byte, 129)}), errHas: "unique ID of the PROXY header has 129 bytes"},
		{name: "TLS whose last part is cut off", in: header2(t, proxied, tcp4, tlv{Type: proxyproto.PP2_TYPE_SSL, Value: []byte("\x01\x00\x00\x00\x00\x22\x00\x09")}), errHas: "tells of TLS"},
		{name: "TLS that is cut off", in: header2(t, proxied, tcp4, tlv{Type: proxyproto.PP2_TYPE_SSL, Value: make([]byte, 3)}), errHas: "tells of TLS"},
	} {
		all := test.in + rest
		if test.name == "TLV that is cut off" {
			all = test.in
		}
		readers := map[string]io.Reader{"whole": strings.NewReader(all)}
		if !test.whole {
			readers["bytes"] = iotest.OneByteReader(strings.NewReader(all))
		}
		for how, r := range readers {
			trust := &Trust{Optional: test.optional, Timeout: time.Second}
			c := stream{Reader: r}
			h, ahead, err := trust.Read(c)
			if test.errHas != "" {
				if err == nil || !strings.HasPrefix(err.Error(), "proxyprotocol: ") || !strings.Contains(err.Error(), test.errHas) {
					t.Errorf("%s, %s: %v", test.name, how, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s, %s: %v", test.name, how, err)
				continue
			}
			behind, _ := io.ReadAll(c)
			want := rest
			if test.none {
				want = all
			}
			if got := string(ahead) + string(behind); got != want {
				t.Errorf("%s, %s: %q is behind the header", test.name, how, got)
			}
			if h == nil || test.none {
				if (h == nil) != test.none {
					t.Errorf("%s, %s: %+v", test.name, how, h)
				}
				continue
			}
			if (h.Source == nil) != (test.source == "") || h.Source != nil && h.Source.String() != test.source || (h.Source == nil) != (h.Destination == nil) {
				t.Errorf("%s, %s: source %v", test.name, how, h.Source)
			}
			if h.ALPN != test.want.ALPN || h.Authority != test.want.Authority || h.UniqueID != test.want.UniqueID || (h.SSL == nil) != (test.want.SSL == nil) {
				t.Errorf("%s, %s: %+v", test.name, how, h)
			}
		}
	}
}

// TestCheckSum: a checksum that is there is checked, whatever stands around it.
func TestCheckSum(t *testing.T) {
	type tlv = proxyproto.TLV
	good := []byte(header2(t, proxied, tcp4, tlv{Type: proxyproto.PP2_TYPE_NOOP, Value: make([]byte, 3)}, tlv{Type: proxyproto.PP2_TYPE_CRC32C, Value: make([]byte, 4)},
		tlv{Type: proxyproto.PP2_TYPE_AUTHORITY, Value: []byte("a.example")}))
	const at = fixedBytes + 12 + 3 + 3 + 3
	binary.BigEndian.PutUint32(good[at:], crc32.Checksum(good, crc32.MakeTable(crc32.Castagnoli)))
	if h := read(t, good); h.Authority != "a.example" {
		t.Errorf("%+v", h)
	}
	for _, i := range []int{16, at, at + 3, len(good) - 1} { // a source, the sum itself, a name
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if _, _, err := (&Trust{Timeout: time.Second}).Read(stream{Reader: bytes.NewReader(bad)}); !errors.Is(err, errSum) {
			t.Errorf("byte %d: %v", i, err)
		}
	}
	short := header2(t, proxied, tcp4, tlv{Type: proxyproto.PP2_TYPE_CRC32C, Value: make([]byte, 3)})
	if _, _, err := (&Trust{Timeout: time.Second}).Read(stream{Reader: strings.NewReader(short)}); !errors.Is(err, errSum) {
		t.Errorf("a sum of three bytes: %v", err)
	}
}

// TestReadWaits: a connection that says nothing is given up in time, and one that
// ends is told apart.
func TestReadWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, sent := range []string{"", "PROXY TCP4 192", "\r\n\r\n\x00\r\nQUIT\n"} {
			ours, theirs := net.Pipe()
			go io.WriteString(theirs, sent)
			start := time.Now()
			_, _, err := (&Trust{Optional: true, Timeout: 3 * time.Second}).Read(ours)
			if err == nil || !strings.Contains(err.Error(), "no PROXY header within 3s") || time.Since(start) != 3*time.Second {
				t.Errorf("%q: %v after %v", sent, err, time.Since(start))
			}
			ours.Close()
			theirs.Close()
		}
	})
	reset := iotest.ErrReader(&net.OpError{Op: "read", Err: syscall.ECONNRESET})
	for _, nothing := range []io.Reader{strings.NewReader(""), reset} {
		if _, _, err := (&Trust{Timeout: time.Second}).Read(stream{Reader: nothing}); err != io.EOF {
			t.Errorf("a connection that ends: %v", err)
		}
	}
	for _, cutOff := range []io.Reader{strings.NewReader("PROXY TCP4"), io.MultiReader(strings.NewReader("PROXY TCP4"), reset)} {
		if _, _, err := (&Trust{Timeout: time.Second}).Read(stream{Reader: cutOff}); err == io.EOF || err == nil || !strings.Contains(err.Error(), "faulty PROXY header") {
			t.Errorf("a connection that ends within the header: %v", err)
		}
	}
}

// read takes a header that was sent apart.
func read(t *testing.T, header []byte) *Header {
	t.Helper()
	h, ahead, err := (&Trust{Timeout: time.Second}).Read(stream{Reader: bytes.NewReader(header)})
	if err != nil || len(ahead) > 0 {
		t.Fatalf("%q: %v, %q behind", header, err, ahead)
	}
	return h
}

// TestFormat pins what is sent, and reads it back.
func TestFormat(t *testing.T) {
	four := Client{Source: tcp("192.0.2.1:5"), Destination: tcp("192.0.2.2:443")}
	mixed := Client{Source: tcp("192.0.2.1:5"), Destination: tcp("[2001:db8::1]:443")}
	socket := Client{Source: &net.UnixAddr{Net: "unix"}, Destination: &net.UnixAddr{Net: "unix", Name: "/run/a"}}
	for want, c := range map[string]Client{
		"PROXY TCP4 192.0.2.1 192.0.2.2 5 443\r\n":          four,
		"PROXY TCP6 ::ffff:192.0.2.1 2001:db8::1 5 443\r\n": mixed,
		"PROXY UNKNOWN\r\n":                                 socket,
	} {
		if got, err := c.Format(V1); err != nil || string(got) != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
		if got, err := c.Format(V2); err != nil {
			t.Error(err)
		} else if h := read(t, got); h.Source == nil || h.SSL != nil || h.UniqueID != "" {
			t.Errorf("%+v", h)
		}
	}
	if got := string(Local(V1)); got != "PROXY UNKNOWN\r\n" {
		t.Errorf("%q", got)
	}
	if got, want := string(Local(V2)), "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"; got != want {
		t.Errorf("%q", got)
	}
}

// TestFormatTLS: what HAProxy tells of TLS is told in its words.
func TestFormatTLS(t *testing.T) {
	front := &Header{ALPN: "http/1.1", Authority: "front.example", UniqueID: "id", SSL: &tlvparse.PP2SSL{Verify: 1}}
	of := func(state *tls.ConnectionState, name string) *Header {
		c := Client{Source: tcp("192.0.2.1:5"), Destination: tcp("192.0.2.2:443"), ServerName: name, TLS: state, Group: "x25519", Front: front}
		b, err := c.Format(V2)
		if err != nil {
			t.Fatal(err)
		}
		return read(t, b)
	}
	if h := of(nil, ""); h.ALPN != "http/1.1" || h.Authority != "front.example" || h.UniqueID != "id" || h.SSL == nil || h.SSL.ClientSSL() {
		t.Errorf("passed on: %+v", h)
	}
	state := &tls.ConnectionState{Version: tls.VersionTLS13, CipherSuite: tls.TLS_AES_128_GCM_SHA256, NegotiatedProtocol: "h2"}
	h := of(state, "a.example")
	version, _ := h.SSL.SSLVersion()
	cipher, _ := h.SSL.SSLCipher()
	group, _ := h.SSL.SSLGroup()
	if h.ALPN != "h2" || h.Authority != "a.example" || h.UniqueID != "id" || !h.SSL.ClientSSL() || h.SSL.Verified() || version != "TLSv1.3" || cipher != "TLS_AES_128_GCM_SHA256" || group != "x25519" {
		t.Errorf("%+v %s %s %s", h, version, cipher, group)
	}
	state.PeerCertificates = []*x509.Certificate{{Subject: pkix.Name{CommonName: "client \xff"}}}
	h = of(state, "")
	if name, _ := h.SSL.ClientCN(); !h.SSL.Verified() || !h.SSL.ClientCertConn() || !h.SSL.ClientCertSess() || name != "client \ufffd" {
		t.Errorf("%+v %q", h.SSL, name)
	}
	for length, told := range map[int]bool{maxCommonName: true, maxCommonName + 1: false, 1 << 17: false} {
		state.PeerCertificates[0].Subject.CommonName = strings.Repeat("a", length)
		h = of(state, "")
		if name, ok := h.SSL.ClientCN(); ok != told || len(name) > maxCommonName || !h.SSL.Verified() {
			t.Errorf("a name of %d bytes: %+v", length, h.SSL)
		}
	}
	if state.DidResume = true; of(state, "").SSL.ClientCertConn() {
		t.Error("a certificate of an earlier connection is told of as of this one")
	}
	front.UniqueID = strings.Repeat("a", 1<<16)
	if _, err := (&Client{Front: front}).Format(V2); err == nil || !strings.HasPrefix(err.Error(), "proxyprotocol: ") || errors.Is(err, errNone) {
		t.Errorf("more than fits: %v", err)
	}
}

// TestTextsOfTLS: what a proxy in front tells of a client's certificate is passed on as
// it came, also where the certificate is not in UTF-8.
func TestTextsOfTLS(t *testing.T) {
	value := "\x07\x00\x00\x00\x00\x22\x00\x04Ren\xe9"
	in := header2(t, proxied, tcp4, proxyproto.TLV{Type: proxyproto.PP2_TYPE_SSL, Value: []byte(value)})
	h := read(t, []byte(in))
	if name, _ := h.SSL.ClientCN(); name != "Ren\xe9" || !h.SSL.Verified() || !h.SSL.ClientCertConn() {
		t.Errorf("%+v", h.SSL)
	}
	out, err := (&Client{Source: tcp("192.0.2.1:5"), Destination: tcp("192.0.2.2:443"), Front: h}).Format(V2)
	if err != nil || !bytes.HasSuffix(out, []byte(value)) {
		t.Errorf("%q, %v", out, err)
	}
}

// TestCipherNames are OpenSSL's.
func TestCipherNames(t *testing.T) {
	for id, want := range map[uint16]string{
		tls.TLS_CHACHA20_POLY1305_SHA256:                  "TLS_CHACHA20_POLY1305_SHA256",
		tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256:         "ECDHE-RSA-AES128-GCM-SHA256",
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384:       "ECDHE-ECDSA-AES256-GCM-SHA384",
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256: "ECDHE-ECDSA-CHACHA20-POLY1305",
		tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA:            "ECDHE-RSA-AES256-SHA",
		tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256:         "ECDHE-RSA-AES128-SHA256",
	} {
		if got := cipherName(id); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// FuzzRead wants any bytes to lead to an error or to a header of bounded content,
// with no byte behind it lost.
func FuzzRead(f *testing.F) {
	f.Add([]byte("PROXY TCP4 192.0.2.1 192.0.2.2 80 443\r\nrest"), true)
	f.Add([]byte("PROXY UNKNOWN\r\n"), false)
	f.Add([]byte("\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x01\x02\x03\x04\x05\x06\x07\x08\x00\x50\x01\xbbrest"), true)
	f.Add([]byte("\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x07\x20\x00\x04\x01\x00\x00\x00"), false)
	f.Fuzz(func(t *testing.T, in []byte, optional bool) {
		c := stream{Reader: bytes.NewReader(in)}
		h, ahead, err := (&Trust{Optional: optional, Timeout: time.Second}).Read(c)
		if err != nil {
			return
		}
		behind, _ := io.ReadAll(c)
		rest := append(bytes.Clone(ahead), behind...)
		if !bytes.HasSuffix(in, rest) || h == nil && !bytes.Equal(in, rest) || h == nil && !optional || h != nil && len(in)-len(rest) < 8 {
			t.Fatalf("%q: %+v, %q behind", in, h, rest)
		}
		if h != nil && (len(h.UniqueID) > maxUniqueID || (h.Source == nil) != (h.Destination == nil)) {
			t.Fatalf("%+v", h)
		}
		if h == nil {
			return
		}
		again := Client{Source: h.Source, Destination: h.Destination, Front: h}
		for _, v := range []Version{V1, V2} {
			if sent, err := again.Format(v); err != nil {
				t.Fatalf("version %d of %+v: %v", v, h, err)
			} else if _, _, err := (&Trust{Timeout: time.Second}).Read(stream{Reader: bytes.NewReader(sent)}); err != nil {
				t.Fatalf("%q: %v", sent, err)
			}
		}
	})
}
