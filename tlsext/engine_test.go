package tlsext_test

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ctrutls/ctrutls/provider"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
	"github.com/ctrutls/ctrutls/tlsext"
)

// fakeEngine is the real provider, but for what a test overrides. It remembers
// the private keys that it handed out and the contexts that it was called with.
type fakeEngine struct {
	generateKey    func(ctx context.Context) error
	serverExchange func(ctx context.Context) error
	clientFinish   func(ctx context.Context) error

	mu       sync.Mutex
	keys     [][]byte
	contexts map[string]context.Context
	calls    map[string]int
}

func (e *fakeEngine) called(name string, ctx context.Context, override func(context.Context) error) error {
	e.mu.Lock()
	if e.calls == nil {
		e.calls, e.contexts = make(map[string]int), make(map[string]context.Context)
	}
	e.calls[name]++
	e.contexts[name] = ctx
	e.mu.Unlock()
	if override != nil {
		return override(ctx)
	}
	return nil
}

func (e *fakeEngine) GenerateKey(ctx context.Context, s *ctruprime.Scheme) ([]byte, error) {
	if err := e.called("GenerateKey", ctx, e.generateKey); err != nil {
		return nil, err
	}
	sk, err := served.GenerateKey(ctx, s)
	e.mu.Lock()
	e.keys = append(e.keys, sk)
	e.mu.Unlock()
	return sk, err
}

func (e *fakeEngine) ServerExchange(ctx context.Context, s *ctruprime.Scheme, share []byte) ([]byte, []byte, error) {
	if err := e.called("ServerExchange", ctx, e.serverExchange); err != nil {
		return nil, nil, err
	}
	return served.ServerExchange(ctx, s, share)
}

func (e *fakeEngine) ClientFinish(ctx context.Context, s *ctruprime.Scheme, x *ecdh.PrivateKey, sk, share []byte) ([]byte, error) {
	if err := e.called("ClientFinish", ctx, e.clientFinish); err != nil {
		return nil, err
	}
	return served.ClientFinish(ctx, s, x, sk, share)
}

// checkWiped checks that every private key that was handed out is gone.
func (e *fakeEngine) checkWiped(t *testing.T, keys int) {
	t.Helper()
	if len(e.keys) != keys {
		t.Errorf("%d private keys were made, want %d", len(e.keys), keys)
	}
	for i, sk := range e.keys {
		if !bytes.Equal(sk, make([]byte, len(sk))) {
			t.Errorf("private key %d is still there", i)
		}
	}
}

// A fault of ours is answered with internal_error, whatever its form.
func TestEngineFaults(t *testing.T) {
	broken := errors.New("the engine is broken")
	faults := map[string]func(context.Context) error{
		"error":       func(context.Context) error { return broken },
		"closed":      func(context.Context) error { return provider.ErrClosed },
		"panic":       func(context.Context) error { panic("secret") },
		"panic error": func(context.Context) error { panic(errors.New("secret")) },
		"nil pointer": func(context.Context) error { var p *int; *p++; return nil },
	}
	for name, fault := range faults {
		t.Run("server/"+name, func(t *testing.T) {
			register(t, &fakeEngine{serverExchange: fault})
			h := (&handshake{server: serverConfig(ctru761), client: clientConfig(ctru761)}).run(t)
			checkAlert(t, "server", h.serverAlerts, alertInternalError)
			checkFault(t, h.serverErr)
		})
		t.Run("client/"+name, func(t *testing.T) {
			engine := &fakeEngine{clientFinish: fault}
			register(t, engine)
			h := (&handshake{server: serverConfig(ctru761), client: clientConfig(ctru761)}).run(t)
			checkAlert(t, "client", h.clientAlerts, alertInternalError)
			checkFault(t, h.clientErr)
			engine.checkWiped(t, 1)
		})
		t.Run("client's key/"+name, func(t *testing.T) {
			register(t, &fakeEngine{generateKey: fault})
			h := (&handshake{server: serverConfig(ctru761), client: clientConfig(ctru761)}).run(t)
			if len(h.hellos) != 0 {
				t.Errorf("a ClientHello was sent")
			}
			checkFault(t, h.clientErr)
		})
		t.Run("client's key after HelloRetryRequest/"+name, func(t *testing.T) {
			register(t, &fakeEngine{generateKey: fault})
			h := (&handshake{
				server: serverConfig(ctru761), client: clientConfig(ctru761, x25519),
				clientCtx: tlsext.WithClientShares(t.Context(), x25519),
			}).run(t)
			checkAlert(t, "client", h.clientAlerts, alertInternalError)
			checkFault(t, h.clientErr)
		})
	}
	t.Run("the next handshake", func(t *testing.T) {
		(&handshake{server: serverConfig(ctru761), client: clientConfig(ctru761)}).succeeds(t, ctru761, false)
	})
}

// checkFault checks that an error blames nobody else and repeats no panic's value.
func checkFault(t *testing.T, err error) {
	t.Helper()
	var peer *provider.PeerError
	if err == nil || errors.As(err, &peer) {
		t.Errorf("the error is %v, want one of our own", err)
	} else if text := err.Error(); strings.Contains(text, "secret") || !strings.HasPrefix(text, "tls: ") {
		t.Errorf("the error reads %q", text)
	}
}

// A private key is wiped when its handshake ends, however that comes.
func TestPrivateKeysAreWiped(t *testing.T) {
	offered := ids(ctru761, mlkem768, x25519, ctru653, p256)
	for _, tc := range []struct {
		name           string
		server, shares []tls.CurveID
		mangle         func([]byte) []byte // the server's message
		keys           int
	}{
		{name: "used", server: ids(ctru761), keys: 1},
		{name: "not chosen", server: ids(x25519), keys: 1},
		{name: "one of two", server: ids(ctru653), shares: ids(ctru761, ctru653), keys: 2},
		{name: "HelloRetryRequest for ours", server: ids(ctru653), keys: 2},
		{name: "HelloRetryRequest for P-256", server: ids(p256), keys: 1},
		{name: "no share at first", server: ids(ctru761), shares: ids(x25519), keys: 1},
		{name: "bad ServerHello", server: ids(ctru761), keys: 1, mangle: func(b []byte) []byte { return b[:20] }},
		{name: "bad ServerHello after HelloRetryRequest", server: ids(ctru653), keys: 2, mangle: func(b []byte) []byte {
			if isHelloRetryRequest(b) {
				return b
			}
			return b[:20]
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			engine := &fakeEngine{}
			register(t, engine)
			h := (&handshake{
				server: serverConfig(append(tc.server, ctru1277)...), client: clientConfig(offered...), mangleServer: tc.mangle,
				clientCtx: tlsext.WithClientShares(t.Context(), tc.shares...),
			}).run(t)
			if (h.clientErr != nil) != (tc.mangle != nil) {
				t.Errorf("the client ended with %v", h.clientErr)
			}
			engine.checkWiped(t, tc.keys)
		})
	}
	t.Run("TLS 1.2 server", func(t *testing.T) {
		engine := &fakeEngine{}
		register(t, engine)
		h := &handshake{server: serverConfig(), client: clientConfig(offered...)}
		h.server.MaxVersion = tls.VersionTLS12
		h.succeeds(t, x25519, false)
		engine.checkWiped(t, 1)
	})
}

type contextKey struct{}

// The handshake's context reaches every call of the engine.
func TestContextReachesTheEngine(t *testing.T) {
	for _, retry := range []bool{false, true} {
		t.Run(fmt.Sprint("retry ", retry), func(t *testing.T) {
			engine := &fakeEngine{}
			register(t, engine)
			h := &handshake{
				server: serverConfig(ctru761), client: clientConfig(ctru761, x25519),
				serverCtx: context.WithValue(t.Context(), contextKey{}, "server"),
				clientCtx: context.WithValue(t.Context(), contextKey{}, "client"),
			}
			if retry {
				h.clientCtx = tlsext.WithClientShares(h.clientCtx, x25519)
			}
			h.succeeds(t, ctru761, retry)
			for call, side := range map[string]string{"GenerateKey": "client", "ServerExchange": "server", "ClientFinish": "client"} {
				ctx := engine.contexts[call]
				if ctx == nil || ctx.Value(contextKey{}) != side {
					t.Errorf("%s did not get the context of the %s's handshake", call, side)
				}
				if engine.calls[call] != 1 {
					t.Errorf("%s was called %d times, want once", call, engine.calls[call])
				}
			}
		})
	}
}

// A call that blocks ends with the handshake's context.
func TestCancellation(t *testing.T) {
	for _, call := range []string{"server", "client's key", "client"} {
		t.Run(call, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			block := func(ctx context.Context) error {
				cancel() // only once the engine is at work
				<-ctx.Done()
				return context.Cause(ctx)
			}
			engine := &fakeEngine{}
			h := &handshake{server: serverConfig(ctru761), client: clientConfig(ctru761)}
			switch call {
			case "server":
				engine.serverExchange, h.serverCtx = block, ctx
			case "client's key":
				engine.generateKey, h.clientCtx = block, ctx
			case "client":
				engine.clientFinish, h.clientCtx = block, ctx
			}
			register(t, engine)
			h.run(t)
			err := h.clientErr
			if call == "server" {
				err = h.serverErr
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the handshake ended with %v, want context.Canceled", err)
			}
			wiped := map[string]int{"server": 1, "client's key": 0, "client": 1}
			engine.checkWiped(t, wiped[call])
		})
	}
}

// A later Register serves the handshakes that begin then; one that is under way
// finishes where it began.
func TestReplacement(t *testing.T) {
	older, newer := &fakeEngine{}, &fakeEngine{}
	register(t, older)
	older.serverExchange = func(context.Context) error {
		return tlsext.RegisterEngine(newer) // the client has an older key now
	}
	(&handshake{server: serverConfig(ctru761), client: clientConfig(ctru761)}).succeeds(t, ctru761, false)
	older.serverExchange = nil
	(&handshake{server: serverConfig(ctru761), client: clientConfig(ctru761)}).succeeds(t, ctru761, false)
	for call, want := range map[string]int{"GenerateKey": 1, "ServerExchange": 1, "ClientFinish": 1} {
		if older.calls[call] != want || newer.calls[call] != want {
			t.Errorf("%s: %d calls of the older engine and %d of the newer, want one each", call, older.calls[call], newer.calls[call])
		}
	}
}

// Registering and handshakes do not get into each other's way; the race detector
// watches.
func TestConcurrentReplacement(t *testing.T) {
	register(t, served)
	var handshakes, registers sync.WaitGroup
	done := make(chan struct{})
	registers.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := tlsext.RegisterEngine(&fakeEngine{}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range 4 {
		group := tlsext.Groups()[i%3]
		handshakes.Go(func() {
			for range 8 {
				h := (&handshake{server: serverConfig(group), client: clientConfig(group)}).run(t)
				if h.serverErr != nil || h.clientErr != nil {
					t.Errorf("server: %v; client: %v", h.serverErr, h.clientErr)
				}
			}
		})
	}
	handshakes.Wait()
	close(done)
	registers.Wait()
}

func TestEvents(t *testing.T) {
	type seen struct {
		tlsext.Event
		side any
	}
	var mu sync.Mutex
	var observed, perContext []seen
	register(t, served, tlsext.Observe(func(ctx context.Context, e tlsext.Event) {
		mu.Lock()
		defer mu.Unlock()
		observed = append(observed, seen{e, ctx.Value(contextKey{})})
	}))
	side := func(name string) context.Context {
		ctx := context.WithValue(t.Context(), contextKey{}, name)
		return tlsext.WithObserver(ctx, func(e tlsext.Event) {
			mu.Lock()
			defer mu.Unlock()
			perContext = append(perContext, seen{e, name})
		})
	}
	run := func(server *tls.Config) {
		observed, perContext = nil, nil
		(&handshake{server: server, client: clientConfig(ctru761, x25519), serverCtx: side("server"), clientCtx: side("client")}).run(t)
	}

	run(serverConfig(ctru761))
	if !slices.Equal(observed, perContext) || len(observed) != 2 {
		t.Fatalf("observed %+v and, by the context, %+v", observed, perContext)
	}
	for i, want := range []string{"server", "client"} {
		e := observed[i]
		if e.Group != ctru761 || e.Server != (want == "server") || e.side != want || e.Err != nil || e.Duration <= 0 {
			t.Errorf("event %d is %+v, want a success of the %s", i, e, want)
		}
	}
	run(serverConfig(x25519))
	if len(observed) != 0 || len(perContext) != 0 {
		t.Errorf("events of another group: %+v", observed)
	}
}

func TestEventOfFailure(t *testing.T) {
	broken := errors.New("broken")
	for _, tc := range []struct {
		name   string
		engine *fakeEngine
		server bool
	}{
		{"server", &fakeEngine{serverExchange: func(context.Context) error { return broken }}, true},
		{"client's key", &fakeEngine{generateKey: func(context.Context) error { return broken }}, false},
		{"client", &fakeEngine{clientFinish: func(context.Context) error { return broken }}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var failed []tlsext.Event
			register(t, tc.engine)
			ctx := tlsext.WithObserver(t.Context(), func(e tlsext.Event) { failed = append(failed, e) })
			h := &handshake{server: serverConfig(ctru761), client: clientConfig(ctru761)}
			if tc.server {
				h.serverCtx = ctx
			} else {
				h.clientCtx = ctx
			}
			h.run(t)
			if len(failed) != 1 || failed[0].Group != ctru761 || failed[0].Server != tc.server || !errors.Is(failed[0].Err, broken) {
				t.Errorf("the events are %+v", failed)
			}
		})
	}
}

func TestRegisterNil(t *testing.T) {
	if err := tlsext.Register(nil); err == nil || !strings.Contains(err.Error(), "provider.Open") {
		t.Errorf("Register(nil) says %v", err)
	}
}

// A panic in an option's function is the handshake's end, not the process's.
func TestObserverPanics(t *testing.T) {
	register(t, served, tlsext.Observe(func(context.Context, tlsext.Event) { panic("observer") }))
	h := (&handshake{server: serverConfig(ctru761), client: clientConfig(ctru761)}).run(t)
	checkAlert(t, "server", h.serverAlerts, alertInternalError)
}

// The hook takes named groups of the private-use range only, and a registration
// that it refuses changes nothing.
func TestHookRefusesGroups(t *testing.T) {
	hook := any(tls.CurveID(0)).(interface {
		CtrutlsRegisterV1(names map[tls.CurveID]string, exchanger interface {
			SharesFor(ctx context.Context, offered []tls.CurveID) []tls.CurveID
			ClientShare(ctx context.Context, group tls.CurveID, x *ecdh.PrivateKey) ([]byte, func(context.Context, []byte) ([]byte, error), func(), error)
			ServerShare(ctx context.Context, group tls.CurveID, clientShare []byte) (share, secret []byte, err error)
		}) error
	})
	for id, name := range map[tls.CurveID]string{x25519: "X25519", 0xFDFF: "below", 0xFF00: "above", 0xFE00: ""} {
		if err := hook.CtrutlsRegisterV1(map[tls.CurveID]string{id: name}, nil); err == nil {
			t.Errorf("%#x, %q was registered", uint16(id), name)
		}
	}
	(&handshake{server: serverConfig(ctru761), client: clientConfig(ctru761)}).succeeds(t, ctru761, false)
}
