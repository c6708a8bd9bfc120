package accesslog

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logging"
)

// Bounds of what clients, and authorities of their certificates, can put into a line,
// in bytes before they are escaped.
const (
	MaxName    = 255 // of a host, as in DNS
	maxMethod  = 32
	maxPath    = 1024
	maxALPN    = 255 // RFC 7301, section 3.1
	maxSubject = 512

	maxUniqueID = 128 // of the PROXY protocol (section 2.2.5)
)

// Client is whose connection a line is about.
type Client struct {
	Connection uint64 // its number in this process, from 1 on
	Remote     string // address and port
	Via        string // the same of the proxy in front that told of it by a PROXY header; "": none
	UniqueID   string // that this one gave the connection, any bytes; "": none
	SNI        string // that the ClientHello asks for; "": none
	// TLS is what the handshake came to; nil where the connection is passed through.
	TLS *tls.ConnectionState
	// Handshake is the time from accept to the end of the handshake; Queue and Batch
	// are, as in provider.Timing, of the key exchange, the others of the signature.
	Handshake, Queue, Batch, SignQueue, SignBatch time.Duration
}

// front are the fields of a connection that came by a proxy in front.
func (c *Client) front(attrs []slog.Attr) []slog.Attr {
	return appendText(appendText(attrs, "via", c.Via), "unique_id", logging.Peer(c.UniqueID, maxUniqueID))
}

// tls are the fields of a connection's TLS.
func (c *Client) tls() (attrs []slog.Attr) {
	state := c.TLS
	if state == nil {
		return nil
	}
	attrs = append(attrs,
		slog.String("version", tls.VersionName(state.Version)),
		slog.String("cipher", tls.CipherSuiteName(state.CipherSuite)),
		slog.String("group", groups.Label(state.CurveID)),
		slog.Bool("resumed", state.DidResume),
	)
	if state.NegotiatedProtocol != "" {
		attrs = append(attrs, slog.String("alpn", logging.Peer(state.NegotiatedProtocol, maxALPN)))
	}
	if len(state.VerifiedChains) > 0 {
		attrs = append(attrs, slog.String("client_cert", logging.Peer(nameOf(state.PeerCertificates[0]), maxSubject)))
	}
	attrs = append(attrs, slog.Duration("handshake", c.Handshake))
	if c.Queue > 0 || c.Batch > 0 {
		attrs = append(attrs, slog.Duration("kem_queue", c.Queue), slog.Duration("kem_batch", c.Batch))
	}
	if c.SignQueue > 0 || c.SignBatch > 0 {
		attrs = append(attrs, slog.Duration("sign_queue", c.SignQueue), slog.Duration("sign_batch", c.SignBatch))
	}
	return attrs
}

// nameOf is a certificate's subject or, where that is empty, the first of its
// alternative names, as config.ClientName writes them.
func nameOf(cert *x509.Certificate) string {
	switch subject := cert.Subject.String(); {
	case subject != "":
		return subject
	case len(cert.URIs) > 0:
		return "uri:" + cert.URIs[0].String()
	case len(cert.DNSNames) > 0:
		return "dns:" + cert.DNSNames[0]
	case len(cert.EmailAddresses) > 0:
		return "email:" + cert.EmailAddresses[0]
	}
	return ""
}

// Request is the line of a request that has ended, an upgraded connection's included.
type Request struct {
	Client   Client
	Proto    string // "HTTP/1.1", "HTTP/2.0"
	Method   string
	Host     string
	Path     string
	Status   int           // 0: none was sent
	Received int64         // bytes of the request's body or, after an upgrade, from the client
	Sent     int64         // bytes of the answer's body or, after an upgrade, to the client
	Duration time.Duration // until all of that was over
	Route    string        // the path of the route that was taken; "": none
	Pool     string        // ""; none was found
	Backend  string        // that answered; "": none did
	// Answered is the time from when the pool was asked to the header of the answer,
	// or to the error in its place; 0: no pool was asked.
	Answered time.Duration
	TraceID  string // "": nothing is traced
}

// Identify are the fields that tell which request it was, for other lines about it too.
func (r *Request) Identify() []slog.Attr {
	return r.Client.front([]slog.Attr{
		slog.String("remote", r.Client.Remote),
		slog.String("proto", r.Proto),
		slog.String("method", logging.Peer(r.Method, maxMethod)),
		slog.String("host", logging.Peer(r.Host, MaxName)),
		slog.String("path", logging.Peer(r.Path, maxPath)),
	})
}

// Log writes the line.
func (r *Request) Log(log *slog.Logger, level slog.Level) {
	attrs := append(r.Identify(), slog.Uint64("connection", r.Client.Connection))
	if r.Status != 0 {
		attrs = append(attrs, slog.Int("status", r.Status))
	} else {
		attrs = append(attrs, slog.Bool("aborted", true))
	}
	attrs = append(attrs, slog.Int64("bytes", r.Sent), slog.Int64("bytes_received", r.Received), slog.Duration("duration", r.Duration))
	attrs = appendText(attrs, "route", r.Route)
	attrs = appendText(attrs, "pool", r.Pool)
	attrs = appendText(attrs, "backend", r.Backend)
	if r.Answered > 0 {
		attrs = append(attrs, slog.Duration("backend_duration", r.Answered))
	}
	attrs = appendText(attrs, "trace_id", r.TraceID)
	attrs = appendText(attrs, "sni", logging.Peer(r.Client.SNI, MaxName))
	log.LogAttrs(context.Background(), level, "request", append(attrs, r.Client.tls()...)...)
}

// Connection is the line of a connection whose bytes were relayed, once it has ended.
type Connection struct {
	Client   Client
	Mode     string // tcp or passthrough
	Pool     string
	Backend  string        // "": none took it
	Received int64         // bytes from the client that the backend took
	Sent     int64         // bytes from the backend that the client took
	Duration time.Duration // from the end of the handshake, or of the ClientHello, on
	// Connected is the time that it took to reach the backend, or to fail to.
	Connected time.Duration
}

// Identify are the fields that tell which connection it was, for other lines about it
// too.
func (c *Connection) Identify() []slog.Attr {
	attrs := []slog.Attr{
		slog.String("remote", c.Client.Remote),
		slog.String("mode", c.Mode),
		slog.Uint64("connection", c.Client.Connection),
	}
	return c.Client.front(appendText(attrs, "sni", logging.Peer(c.Client.SNI, MaxName)))
}

// Log writes the line.
func (c *Connection) Log(log *slog.Logger, level slog.Level) {
	attrs := append(c.Identify(),
		slog.Int64("bytes", c.Sent), slog.Int64("bytes_received", c.Received), slog.Duration("duration", c.Duration), slog.String("pool", c.Pool))
	attrs = appendText(attrs, "backend", c.Backend)
	attrs = append(attrs, slog.Duration("backend_duration", c.Connected))
	log.LogAttrs(context.Background(), level, "connection", append(attrs, c.Client.tls()...)...)
}

// appendText adds a field unless it is empty.
func appendText(attrs []slog.Attr, name, text string) []slog.Attr {
	if text == "" {
		return attrs
	}
	return append(attrs, slog.String(name, text))
}
