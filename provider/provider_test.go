package provider

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sets are the parameter sets that tests loop over.
var sets = []*ctruprime.Scheme{ctruprime.Scheme653(), ctruprime.Scheme761(), ctruprime.Scheme1277()}

func openTest(t *testing.T, cfg Config) *Provider {
	t.Helper()
	p, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// testEngine is the CPU engine behind a function that sees each batch first.
type testEngine struct {
	cpuEngine
	before func(ctx context.Context, batch []request)
	closed bool
}

func (e *testEngine) serve(ctx context.Context, batch []request) {
	e.before(ctx, batch)
	e.cpuEngine.serve(ctx, batch)
}

func (e *testEngine) close() {
	e.closed = true
	e.cpuEngine.close()
}

func openWith(t *testing.T, cfg Config, log *slog.Logger, before func(context.Context, []request)) (*Provider, *testEngine) {
	t.Helper()
	e := &testEngine{cpuEngine: cpuEngine{log: log}, before: before}
	p := open(cfg, log, e)
	t.Cleanup(func() { p.Close() })
	return p, e
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

func x25519Key(t testing.TB) *ecdh.PrivateKey {
	t.Helper()
	x, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// client is a client's two key pairs and its share.
type client struct {
	x     *ecdh.PrivateKey
	sk    []byte
	share []byte
}

// ownClient is newClient without the Provider.
func ownClient(t testing.TB, s *ctruprime.Scheme) client {
	t.Helper()
	sk, x := make([]byte, s.PrivateKeySize()), x25519Key(t)
	if err := s.GenerateKeyBytes(sk, random(ctruprime.KeySeedSize)); err != nil {
		t.Fatal(err)
	}
	return client{x, sk, append(x.PublicKey().Bytes(), s.PublicKeyOf(sk)...)}
}

func newClient(t *testing.T, p *Provider, s *ctruprime.Scheme) client {
	t.Helper()
	sk, err := p.GenerateKey(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	x := x25519Key(t)
	return client{x, sk, append(x.PublicKey().Bytes(), s.PublicKeyOf(sk)...)}
}

func TestExchange(t *testing.T) {
	p := openTest(t, Config{KeyPoolSize: -1})
	for _, s := range sets {
		c := newClient(t, p, s)
		serverShare, secret, err := p.ServerExchange(t.Context(), s, c.share)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.ClientFinish(t.Context(), s, c.x, c.sk, serverShare)
		if err != nil || !bytes.Equal(got, secret) {
			t.Fatalf("%s: the two sides differ (%v)", s.Name(), err)
		}

		// The two halves, each by its own library and nothing of this package.
		server, err := ecdh.X25519().NewPublicKey(serverShare[:32])
		if err != nil {
			t.Fatal(err)
		}
		classical, err := c.x.ECDH(server)
		if err != nil {
			t.Fatal(err)
		}
		sk, err := s.UnmarshalBinaryPrivateKey(c.sk)
		if err != nil {
			t.Fatal(err)
		}
		kemSecret, err := s.Decapsulate(sk, serverShare[32:])
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(secret, append(classical, kemSecret...)) {
			t.Errorf("%s: the secret is not x25519 || kem", s.Name())
		}
		again, _, err := p.ServerExchange(t.Context(), s, c.share)
		if err != nil || bytes.Equal(again, serverShare) {
			t.Errorf("%s: two exchanges made one share (%v)", s.Name(), err)
		}
	}
}

// lowOrder are points that X25519 sends to zero: 0, 1, the two of order eight,
// and those of them that are not reduced modulo 2^255-19, written out by value.
func lowOrder() [][]byte {
	point := func(low byte, middle byte, top byte) []byte {
		b := bytes.Repeat([]byte{middle}, 32)
		b[0], b[31] = low, top
		return b
	}
	return [][]byte{
		make([]byte, 32),        // 0
		point(1, 0, 0),          // 1
		point(0xec, 0xff, 0x7f), // p-1
		point(0xed, 0xff, 0x7f), // p, which is 0
		point(0xee, 0xff, 0x7f), // p+1, which is 1
		{0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a, 0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00},
		{0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef, 0x5b, 0x04, 0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f, 0x11, 0x57},
	}
}

func TestPeerFaults(t *testing.T) {
	p := openTest(t, Config{})
	for _, s := range sets {
		c := newClient(t, p, s)
		serverShare, _, err := p.ServerExchange(t.Context(), s, c.share)
		if err != nil {
			t.Fatal(err)
		}
		server := func(share []byte) error {
			_, _, err := p.ServerExchange(t.Context(), s, share)
			return err
		}
		finish := func(share []byte) error {
			_, err := p.ClientFinish(t.Context(), s, c.x, c.sk, share)
			return err
		}
		bad := map[string]error{
			"client share empty":       server(nil),
			"client share only x25519": server(c.share[:32]),
			"client share short":       server(c.share[:len(c.share)-1]),
			"client share long":        server(append(bytes.Clone(c.share), 0)),
			"client share of 8191":     server(append(bytes.Clone(c.share[:32]), bytes.Repeat([]byte{0xff}, s.PublicKeySize())...)),
			"server share empty":       finish(nil),
			"server share only x25519": finish(serverShare[:32]),
			"server share short":       finish(serverShare[:len(serverShare)-1]),
			"server share long":        finish(append(bytes.Clone(serverShare), 0)),
		}
		for i, point := range lowOrder() {
			name := " low order " + string(rune('0'+i))
			bad["client"+name] = server(append(bytes.Clone(point), c.share[32:]...))
			bad["server"+name] = finish(append(bytes.Clone(point), serverShare[32:]...))
		}
		_, _, bad["public key short"] = p.Encapsulate(t.Context(), s, c.share[33:])
		_, _, bad["public key of 8191"] = p.Encapsulate(t.Context(), s, bytes.Repeat([]byte{0xff}, s.PublicKeySize()))
		_, bad["ciphertext short"] = p.Decapsulate(t.Context(), s, c.sk, serverShare[33:])
		for name, err := range bad {
			var peer *PeerError
			if !errors.As(err, &peer) || !peer.PeerFault() || !strings.HasPrefix(err.Error(), "provider: ") {
				t.Errorf("%s: %s: %v, want a PeerError", s.Name(), name, err)
			}
		}
		if _, err := p.ClientFinish(t.Context(), s, c.x, c.sk, serverShare); err != nil {
			t.Errorf("%s: a good share after the bad ones: %v", s.Name(), err)
		}
	}
}

// What is wrong on our own side must not be blamed on the peer.
func TestOwnFaults(t *testing.T) {
	p := openTest(t, Config{})
	s := ctruprime.Scheme761()
	c := newClient(t, p, s)
	share, _, err := p.ServerExchange(t.Context(), s, c.share)
	if err != nil {
		t.Fatal(err)
	}
	badKey := bytes.Clone(c.sk)
	badKey[0] = 0xff // two nibbles of 15; the largest is 9
	p256, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the handshake's deadline")
	cancel(cause)

	own := map[string]error{}
	_, own["short secret key"] = p.Decapsulate(t.Context(), s, c.sk[1:], share[32:])
	_, own["malformed secret key"] = p.Decapsulate(t.Context(), s, badKey, share[32:])
	_, own["finish, short secret key"] = p.ClientFinish(t.Context(), s, c.x, c.sk[1:], share)
	_, own["finish, malformed secret key"] = p.ClientFinish(t.Context(), s, c.x, badKey, share)
	_, own["finish without x25519"] = p.ClientFinish(t.Context(), s, nil, c.sk, share)
	_, own["finish with P-256"] = p.ClientFinish(t.Context(), s, p256, c.sk, share)
	_, _, own["no scheme"] = p.Encapsulate(t.Context(), nil, c.share[32:])
	_, own["no scheme, key"] = p.GenerateKey(t.Context(), nil)
	_, own["no scheme, decapsulate"] = p.Decapsulate(t.Context(), nil, c.sk, share[32:])
	_, _, own["no scheme, server"] = p.ServerExchange(t.Context(), nil, c.share)
	_, own["no scheme, finish"] = p.ClientFinish(t.Context(), nil, c.x, c.sk, share)
	_, _, own["context over"] = p.ServerExchange(ctx, s, c.share)
	for name, err := range own {
		var peer *PeerError
		if err == nil || errors.As(err, &peer) {
			t.Errorf("%s: %v, want an error that is not the peer's", name, err)
		}
	}
	if !errors.Is(own["context over"], cause) {
		t.Errorf("context over: %v, want its cause", own["context over"])
	}
}

func TestOpenRefuses(t *testing.T) {
	_, err := Open(Config{KeyPoolSize: MaxKeyPoolSize + 1})
	if err == nil || !strings.Contains(err.Error(), "KeyPoolSize") {
		t.Errorf("%v, want an error that names KeyPoolSize", err)
	}
}

// A panic of the engine fails the calls in it, is logged with its place and
// without key material, and harms no later call.
func TestEnginePanic(t *testing.T) {
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	secret := "key material"
	boom := true
	p, _ := openWith(t, Config{KeyPoolSize: -1}, log, func(context.Context, []request) {
		if boom {
			panic([]byte(secret))
		}
	})
	s := ctruprime.Scheme761()
	if _, err := p.GenerateKey(t.Context(), s); !errors.Is(err, errEnginePanic) {
		t.Fatalf("%v, want errEnginePanic", err)
	}
	if l := logged.String(); !strings.Contains(l, "TestEnginePanic.func") || !strings.Contains(l, "a value of type []uint8") || strings.Contains(l, secret) {
		t.Errorf("log: %s", l)
	}
	boom = false
	if _, err := p.GenerateKey(t.Context(), s); err != nil {
		t.Error(err)
	}
	if st := operationStats(p, s, opGenerateKey); st.Failures != 1 || st.Served != 1 {
		t.Errorf("%+v, want one failure and one served", st)
	}
}

// A panic on a goroutine of the CPU engine's own is caught as well.
func TestCPUPanic(t *testing.T) {
	var logged bytes.Buffer
	e := &cpuEngine{log: slog.New(slog.NewTextHandler(&logged, nil))}
	s := ctruprime.Scheme653()
	batch := make([]request, 8)
	for i := range batch {
		batch[i] = request{op: opDecapsulate, scheme: s} // no room for the result, no key
	}
	batch[3] = request{op: opClientFinish, scheme: s, peer: nil, out: nil} // slices out of range
	e.serve(t.Context(), batch)
	for i, r := range batch {
		if r.err == nil {
			t.Errorf("request %d: no error", i)
		}
	}
	if !errors.Is(batch[3].err, errEnginePanic) {
		t.Errorf("%v, want errEnginePanic", batch[3].err)
	}
}

func operationStats(p *Provider, s *ctruprime.Scheme, op operation) OperationStats {
	for _, st := range p.Stats().Operations {
		if st.Scheme == s.Name() && st.Operation == op.String() {
			return st
		}
	}
	return OperationStats{}
}

func TestStats(t *testing.T) {
	p := openTest(t, Config{KeyPoolSize: -1})
	s := ctruprime.Scheme1277()
	c := newClient(t, p, s)
	for range 3 {
		if _, _, err := p.ServerExchange(t.Context(), s, c.share); err != nil {
			t.Fatal(err)
		}
	}
	p.ServerExchange(t.Context(), s, append(make([]byte, 32), c.share[32:]...))
	if got, want := operationStats(p, s, opServerExchange), (OperationStats{"CTRU-Prime-1277", "server-exchange", 3, 0, 1, 0}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := operationStats(p, ctruprime.Scheme761(), opServerExchange); got.Served != 0 {
		t.Errorf("%+v, want nothing of the other set", got)
	}
	if st := p.Stats(); st.Engine != EngineCPU || st.GPU != nil || st.Routing != nil || len(st.KeyPools) != 0 || len(st.Operations) != 3*int(operations) {
		t.Errorf("%+v", st)
	}
}

// A call that the engine never sees is counted like one that it refuses.
func TestStatsOfRefusals(t *testing.T) {
	p := openTest(t, Config{KeyPoolSize: -1})
	s := ctruprime.Scheme653()
	c := newClient(t, p, s)
	p.ServerExchange(t.Context(), s, nil)
	p.Encapsulate(t.Context(), s, nil)
	p.Decapsulate(t.Context(), s, c.sk, nil)
	p.Decapsulate(t.Context(), s, nil, make([]byte, s.CiphertextSize()))
	p.ClientFinish(t.Context(), s, c.x, c.sk, nil)
	p.ClientFinish(t.Context(), s, nil, c.sk, nil)
	p.ClientFinish(t.Context(), s, c.x, nil, nil)
	for op, want := range map[operation][2]uint64{opServerExchange: {1, 0}, opEncapsulate: {1, 0}, opDecapsulate: {1, 1}, opClientFinish: {1, 2}} {
		if got := operationStats(p, s, op); got.PeerFaults != want[0] || got.Failures != want[1] {
			t.Errorf("%v: %+v, want %d of the peer and %d others", op, got, want[0], want[1])
		}
	}
	pooled := openTest(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pooled.GenerateKey(ctx, s); err != nil && operationStats(pooled, s, opGenerateKey).Failures != 1 {
		t.Error("a wait for a key that the context ended is not counted")
	}
}

// What held a secret is zero once the call is over: the seeds always, the
// result where there was an error.
func TestCallsWipe(t *testing.T) {
	s := ctruprime.Scheme653()
	var seen request
	p := open(Config{KeyPoolSize: -1}, slog.Default(), failingEngine{new(cpuEngine), &seen})
	t.Cleanup(func() { p.Close() })
	real := openTest(t, Config{KeyPoolSize: -1})
	c := newClient(t, real, s)
	for name, call := range map[string]func(){
		"GenerateKey":    func() { p.GenerateKey(t.Context(), s) },
		"Encapsulate":    func() { p.Encapsulate(t.Context(), s, c.share[32:]) },
		"ServerExchange": func() { p.ServerExchange(t.Context(), s, c.share) },
		"kem.Scheme":     func() { p.Schemes()[0].Encapsulate(mustPublic(t, p.Schemes()[0], c.share[32:])) },
		"hybrid":         func() { p.Hybrids()[0].Encapsulate(mustPublic(t, p.Hybrids()[0], c.share)) },
	} {
		seen = request{}
		call()
		if len(seen.own) == 0 || len(seen.out) == 0 {
			t.Fatalf("%s: the engine saw no seed or no result", name)
		}
		if !bytes.Equal(seen.own, make([]byte, len(seen.own))) {
			t.Errorf("%s: the seed was not wiped", name)
		}
		if !bytes.Equal(seen.out, make([]byte, len(seen.out))) {
			t.Errorf("%s: the result of a failed call was not wiped", name)
		}
	}
}

// failingEngine writes a result, keeps the request and fails.
type failingEngine struct {
	*cpuEngine
	seen *request
}

func (failingEngine) name() string { return "failing" }
func (e failingEngine) serve(_ context.Context, batch []request) {
	rand.Read(batch[0].out)
	batch[0].err = errors.New("device lost")
	*e.seen = batch[0]
}

// Close waits for calls in flight, which end well; later calls are refused.
func TestClose(t *testing.T) {
	s := ctruprime.Scheme761()
	entered, release := make(chan struct{}), make(chan struct{})
	p, e := openWith(t, Config{KeyPoolSize: -1}, slog.Default(), func(_ context.Context, batch []request) {
		if batch[0].op == opServerExchange {
			entered <- struct{}{}
			<-release
		}
	})
	c := newClient(t, p, s)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, _, err := p.ServerExchange(context.Background(), s, c.share); err != nil {
				t.Errorf("a call in flight: %v", err)
			}
		})
		<-entered
	}
	closed := make(chan struct{})
	go func() { p.Close(); close(closed) }()
	for {
		if _, err := p.GenerateKey(t.Context(), s); errors.Is(err, ErrClosed) {
			break // Close has begun
		}
	}
	select {
	case <-closed:
		t.Error("Close did not wait")
	default:
	}
	close(release)
	wg.Wait()
	<-closed
	if !e.closed {
		t.Error("the engine was not closed")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	_, _, err := p.Encapsulate(t.Context(), s, c.share[32:])
	_, errKey := p.GenerateKey(t.Context(), s)
	_, errBatch := p.GenerateKeyBatch(t.Context(), s, 1)
	for _, err := range []error{err, errKey, errBatch} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%v, want ErrClosed", err)
		}
	}
}

func TestManyCallers(t *testing.T) {
	p := openTest(t, Config{KeyPoolSize: 8})
	var wg sync.WaitGroup
	for i := range 12 {
		s := sets[i%len(sets)]
		wg.Go(func() {
			for range 4 {
				sk, err := p.GenerateKey(context.Background(), s)
				if err != nil {
					t.Error(err)
					return
				}
				ct, ss, err := p.Encapsulate(context.Background(), s, s.PublicKeyOf(sk))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := p.Decapsulate(context.Background(), s, sk, ct)
				if err != nil || !bytes.Equal(got, ss) {
					t.Errorf("%s: keys differ (%v)", s.Name(), err)
				}
			}
		})
	}
	wg.Wait()
}
