// Package tlsext puts CTRU-Prime hybrids into crypto/tls: TLS 1.3 groups that
// net/http, HTTP/2, gRPC, QUIC and everything else that is built on [tls.Config]
// can use unchanged.
//
// # Building
//
// crypto/tls has no way to add a key exchange, so a program is built with gotls,
// which runs the go command with a hook in crypto/tls (see its documentation):
//
//	go get -tool github.com/ctrutls/ctrutls/tlsext/gotls
//	go tool gotls build ./...
//
// Without gotls everything compiles all the same; [Available] is then false,
// [Register] fails with [ErrNoHook], and crypto/tls ignores the groups.
//
// # Use
//
// Open a provider, register it once, and name a group where it is wanted:
//
//	p, err := provider.Open(provider.Config{})
//	...
//	err = tlsext.Register(p)
//	...
//	config := &tls.Config{
//		CurvePreferences: tlsext.Preferences(tlsext.X25519CTRUPrime761),
//		...
//	}
//
// [tls.ConnectionState].CurveID tells the group that was negotiated, also of a
// server's handshake that failed in the key exchange.
//
// # Which group is chosen
//
// A group of this package is off unless CurvePreferences names it. Where it names
// one, the order of CurvePreferences counts, for every group in it: a client
// offers them in that order, and a server takes the first one of its list that
// the client offers, at the cost of a HelloRetryRequest if the client sent no key
// share for it. Where CurvePreferences names none, crypto/tls's own order stands,
// which ignores that of the list.
//
// In FIPS 140-3 mode, and before TLS 1.3, the groups are treated as unknown.
//
// # Which key shares a client sends
//
// A client that offers one of the groups sends up to three key shares, one of
// each kind that it offers, on one X25519 key:
//
//   - the first of this package's groups in its list,
//   - X25519MLKEM768, because crypto/tls servers pick a post-quantum group before
//     they look for a share, and would ask for this one by HelloRetryRequest,
//   - X25519.
//
// If its list begins with another group of crypto/tls, such as P-256, that group
// takes its kind's place, since crypto/tls always sends a share for the most
// preferred group; and if X25519MLKEM768 or X25519 is not offered, the first group
// of that kind does. A ClientHello with three shares takes about 2.8 kB, in two
// packets. [ClientShares] and [WithClientShares] choose others, fewer for a path
// that loses large hellos.
//
// # Failures
//
// A share that is the peer's fault is answered with illegal_parameter; anything
// else that fails, a panic included, with internal_error. A call of the provider
// ends with the handshake's context, that of [tls.Conn.HandshakeContext]. Note that
// net/http's TLSHandshakeTimeout and a server's ReadTimeout set a deadline on the
// connection, which a handshake notices only when it reads or writes.
//
// Private keys are wiped when the handshake ends. The secret itself belongs to
// crypto/tls, which does not wipe it; nor can an X25519 key of crypto/ecdh be.
// [tls.Config].Rand is not used for the groups: randomness is the provider's.
//
// # What the package must not know
//
// It knows TLS and the provider's calls. It must not know what serves them: no
// import of gpu, kernels or a driver.
package tlsext
