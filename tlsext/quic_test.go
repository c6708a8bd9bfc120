package tlsext_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"testing"

	"github.com/ctrutls/ctrutls/tlsext"
)

// quicPair drives the two ends of a QUIC handshake, as a QUIC implementation
// would (RFC 9001).
type quicPair struct {
	client, server *tls.QUICConn
}

func newQUICPair(server, client *tls.Config) quicPair {
	server.MinVersion, client.MinVersion = tls.VersionTLS13, tls.VersionTLS13
	server.NextProtos, client.NextProtos = []string{"h3"}, []string{"h3"}
	return quicPair{
		client: tls.QUICClient(&tls.QUICConfig{TLSConfig: client}),
		server: tls.QUICServer(&tls.QUICConfig{TLSConfig: server}),
	}
}

// run returns the error of the side that failed first, if any.
func (p quicPair) run(serverCtx, clientCtx context.Context) error {
	defer p.client.Close()
	defer p.server.Close()
	p.client.SetTransportParameters(nil)
	p.server.SetTransportParameters(nil)
	if err := p.client.Start(clientCtx); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	if err := p.server.Start(serverCtx); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	clientDone, serverDone := false, false
	for !clientDone || !serverDone {
		moved := false
		for _, side := range []struct {
			name     string
			from, to *tls.QUICConn
			done     *bool
		}{{"server", p.client, p.server, &clientDone}, {"client", p.server, p.client, &serverDone}} {
			for event := side.from.NextEvent(); event.Kind != tls.QUICNoEvent; event = side.from.NextEvent() {
				moved = true
				switch event.Kind {
				case tls.QUICWriteData:
					if err := side.to.HandleData(event.Level, event.Data); err != nil {
						return fmt.Errorf("%s: %w", side.name, err)
					}
				case tls.QUICHandshakeDone:
					*side.done = true
				}
			}
		}
		if !moved {
			return errors.New("the handshake has come to a halt")
		}
	}
	return nil
}

func TestQUIC(t *testing.T) {
	for _, tc := range []struct {
		name  string
		group tls.CurveID
		ctx   context.Context
		retry bool
	}{
		{"ours", ctru761, t.Context(), false},
		{"HelloRetryRequest", ctru1277, tlsext.WithClientShares(t.Context(), x25519), true},
		{"stock", mlkem768, t.Context(), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newQUICPair(serverConfig(tc.group), clientConfig(ctru761, ctru1277, mlkem768, x25519))
			if err := p.run(t.Context(), tc.ctx); err != nil {
				t.Fatal(err)
			}
			if s, c := p.server.ConnectionState(), p.client.ConnectionState(); s.CurveID != tc.group || c.CurveID != tc.group || c.HelloRetryRequest != tc.retry {
				t.Errorf("negotiated %v and %v, HelloRetryRequest %v", s.CurveID, c.CurveID, c.HelloRetryRequest)
			}
		})
	}
}

// A QUIC connection is told the alert that it has to close with.
func TestQUICAlert(t *testing.T) {
	broken := func(context.Context) error { return errors.New("broken") }
	for name, engine := range map[string]*fakeEngine{
		"server": {serverExchange: broken},
		"client": {clientFinish: broken},
	} {
		t.Run(name, func(t *testing.T) {
			register(t, engine)
			err := newQUICPair(serverConfig(ctru761), clientConfig(ctru761)).run(t.Context(), t.Context())
			var alert tls.AlertError
			if !errors.As(err, &alert) || alert != alertInternalError {
				t.Errorf("the %s failed with %v, want %q", name, err, alertInternalError)
			}
		})
	}
}
