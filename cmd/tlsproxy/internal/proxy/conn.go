package proxy

import (
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/accesslog"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/backend"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxyprotocol"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/routing"
)

// conn is a client's connection beneath TLS. It knows how far its handshake
// got, bounds how long a write may block, and leaves the Server's books when it
// is closed.
type conn struct {
	net.Conn
	server   *Server
	number   uint64     // from 1 on, once it is admitted
	live     *setup     // that it was accepted under
	source   netip.Addr // whose share of connections and handshakes it takes
	sourced  bool       // and that it takes it; the Server's lock guards this and hosted
	hosted   bool       // it takes a share of its host's connections
	closed   atomic.Bool
	accepted time.Time

	turn        turn                                // while in the handshake
	ahead       []byte                              // was read, and is yet to be read by TLS
	hello       atomic.Pointer[tls.ClientHelloInfo] // while in the handshake, once received
	received    atomic.Bool                         // at least a byte, while in the handshake
	spoke       atomic.Bool                         // its first record is there
	established atomic.Bool                         // the handshake is done
	atFault     atomic.Bool                         // our key exchange failed
	alertSent   atomic.Uint32                       // in the clear during the handshake; its number plus 1

	keyExchange groups.KeyExchange // with a group of ours; set within the handshake
	exchanged   time.Duration      // from accept to the end of that
	signature   Signature          // by Options.Sign; set within the handshake
	signed      time.Duration      // from accept to the end of that
	traced      atomic.Bool        // a request over it has come, to whose trace the handshake belongs
	handshook   time.Duration      // how long the handshake took, once it is done

	host         *routing.Host // found by the ClientHello; nil before that
	sni          string        // that the ClientHello asks for
	policy       identity      // of the host's, in the handshake
	challenge    bool          // the handshake is for an Issuer
	alertInstead uint8         // to be sent in place of crypto/tls's; 0: that one is sent
	silent       bool          // nothing is sent
	keeping      bool          // what is read is kept as well
	kept         []byte

	trust         *proxyprotocol.Trust  // it comes from a proxy in front; nil: from its client
	front         *proxyprotocol.Header // what that one told; nil: nothing
	remote, local net.Addr              // that it told; nil: those of the socket

	toldMu sync.Mutex
	told   *backend.Client // made when the first backend is told of it

	lifetime atomic.Pointer[lifetime] // nil: it has no bound
	underway atomic.Int32             // requests; 1 while it is relayed

	writeTimeout time.Duration // 0: none
	writeArmed   atomic.Int64  // when the deadline for writes was last set, in Unix nanoseconds
	writeSet     atomic.Bool   // a deadline set from above is in force
}

func newConn(s *Server, raw net.Conn) *conn {
	live := s.live.Load()
	return &conn{Conn: raw, server: s, live: live, source: sourceOf(raw.RemoteAddr()), accepted: time.Now(),
		turn:    turn{of: live.turns},
		keeping: live.passthrough, writeTimeout: time.Duration(live.timeouts.Write)}
}

// handshakeDeadline is when the handshake has to be done.
func (c *conn) handshakeDeadline() time.Time {
	return c.accepted.Add(time.Duration(c.live.timeouts.Handshake))
}

func (c *conn) sawHello(hello *tls.ClientHelloInfo) { c.hello.Store(hello) }

func (c *conn) sawKeyExchange(e groups.KeyExchange) {
	c.keyExchange, c.exchanged = e, time.Since(c.accepted)
	if e.Fault {
		c.atFault.Store(true)
	}
}

func (c *conn) sawSignature(s Signature) { c.signature, c.signed = s, time.Since(c.accepted) }

// client describes the connection for the access log; state is nil where TLS is
// passed through.
func (c *conn) client(state *tls.ConnectionState) accesslog.Client {
	client := accesslog.Client{Connection: c.number, Remote: c.RemoteAddr().String(), SNI: c.sni, TLS: state,
		Handshake: c.handshook, Queue: c.keyExchange.Queue, Batch: c.keyExchange.Batch, SignQueue: c.signature.Queue, SignBatch: c.signature.Batch}
	if c.front != nil {
		client.Via, client.UniqueID = c.via().String(), c.front.UniqueID
	}
	return client
}

// finishHandshake lets go of what was noted in case that the handshake fails.
func (c *conn) finishHandshake() {
	c.handshook = time.Since(c.accepted)
	c.established.Store(true)
	c.hello.Store(nil)
}

// wire is a conn whose Read is that of what is beneath it.
type wire struct{ *conn }

// Read counts what comes.
func (w wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.server.received.Add(uint64(n))
	return n, err
}

// Read notes that the client sent something.
func (c *conn) Read(b []byte) (int, error) {
	inHandshake := !c.established.Load()
	n, err := c.read(b)
	if n > 0 && inHandshake {
		c.received.Store(true)
		if c.keeping {
			if err := c.keep(b[:n]); err != nil {
				return 0, err
			}
		}
	}
	return n, err
}

// Write fails if the client takes no byte for about the write time-out.
func (c *conn) Write(b []byte) (int, error) {
	if c.silent {
		return len(b), nil
	}
	if !c.established.Load() {
		b = c.replaceAlert(b)
		c.noteAlert(b)
		c.turn.pause() // until the client says more: it may not even take this
	}
	c.armWrite()
	n, err := c.Conn.Write(b)
	c.server.sent.Add(uint64(n))
	return n, err
}

// armWrite moves the deadline for writes on. It does so once in a quarter of
// the time-out at most, and so grants up to a quarter more.
func (c *conn) armWrite() {
	if c.writeTimeout == 0 || c.writeSet.Load() {
		return
	}
	now := time.Now()
	if now.UnixNano()-c.writeArmed.Load() > int64(c.writeTimeout/4) {
		c.writeArmed.Store(now.UnixNano())
		c.Conn.SetWriteDeadline(now.Add(c.writeTimeout + c.writeTimeout/4))
	}
}

// SetDeadline gives way to a deadline from above, until that is removed.
func (c *conn) SetDeadline(t time.Time) error {
	c.noteDeadline(t)
	return c.Conn.SetDeadline(t)
}

// SetWriteDeadline is like SetDeadline. crypto/tls bounds its closing alert
// with it.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.noteDeadline(t)
	return c.Conn.SetWriteDeadline(t)
}

func (c *conn) noteDeadline(t time.Time) {
	c.writeSet.Store(!t.IsZero())
	c.writeArmed.Store(0)
}

// noteAlert remembers an alert that crypto/tls sends in the clear: the error
// that it returns for it does not say which it was (RFC 8446, section 6).
func (c *conn) noteAlert(record []byte) {
	if isAlert(record) {
		c.alertSent.Store(uint32(record[alertAt]) + 1)
	}
}

// alertAt is where an alert's record has the description.
const alertAt = 6

// isAlert knows records that hold an alert in the clear.
func isAlert(record []byte) bool {
	const alertRecord = 21
	return len(record) == alertAt+1 && record[0] == alertRecord
}

// Close closes the connection, once.
func (c *conn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return net.ErrClosed
	}
	err := c.Conn.Close()
	if l := c.lifetime.Load(); l != nil {
		if over, cut := l.stop(); over {
			c.server.observer.ObserveExpired(cut)
		}
	}
	c.closeBackendClient()
	c.server.forget(c)
	return err
}
