package provider

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

const (
	// DefaultKeyPoolSize is how many key pairs a pool holds where Config does
	// not say: twice the group that one refill makes.
	DefaultKeyPoolSize = 2 * ctruprime.MaxKeyGroup
	// MaxKeyPoolSize bounds Config.KeyPoolSize: 65,536 keys of the 1277 set
	// are 180 MB.
	MaxKeyPoolSize = 1 << 16
	// MaxBatch is the largest number of operations in one batch call.
	MaxBatch = 1 << 20
)

// Config configures a Provider. The zero value works.
type Config struct {
	// KeyPoolSize is how many pre-generated key pairs are held for each
	// parameter set that is in use: 0 means DefaultKeyPoolSize, a negative
	// value means none (each key is then generated when asked for).
	KeyPoolSize int
	// Engine says what serves calls; empty means EngineCPU. The others load
	// NVIDIA's driver into the process, and take some seconds to open where it has
	// not compiled the kernels before.
	Engine Engine
	// GPU configures the use of GPUs, if there are any.
	GPU GPU
	// Logger receives what no caller can be told, such as the place of an
	// engine's panic, and the changes in a device's state. Key material is never
	// logged. Nil means slog.Default().
	Logger *slog.Logger
}

// Provider serves key exchanges. Its methods may be called concurrently.
type Provider struct {
	log     *slog.Logger
	engine  engine
	pools   map[*ctruprime.Scheme]*keyPool
	stats   map[*ctruprime.Scheme]*counters
	signing counts
	// adopting is whether a key is being made known to the devices.
	adopting atomic.Bool
	schemes  []*ctruprime.Scheme

	running   atomic.Int64 // calls in flight, and closedBit
	idle      chan struct{}
	closeOnce sync.Once
}

// closedBit in Provider.running says that Close was called.
const closedBit = 1 << 62

// Open returns a Provider, or an error that names the field of Config at fault,
// or says why EngineGPU can't be had. It may take some tenths of a second where
// there are GPUs.
func Open(cfg Config) (*Provider, error) {
	if cfg.KeyPoolSize > MaxKeyPoolSize {
		return nil, fmt.Errorf("provider: KeyPoolSize is %d; the most is %d", cfg.KeyPoolSize, MaxKeyPoolSize)
	}
	log := cfg.Logger
	if log == nil {
		log = slog.Default()
	}
	e, err := newEngine(cfg, log)
	if err != nil {
		return nil, err
	}
	return open(cfg, log, e), nil
}

// open is Open with the engine given.
func open(cfg Config, log *slog.Logger, e engine) *Provider {
	p := &Provider{
		log:     log,
		engine:  e,
		pools:   map[*ctruprime.Scheme]*keyPool{},
		stats:   map[*ctruprime.Scheme]*counters{},
		schemes: schemes,
		idle:    make(chan struct{}, 1),
	}
	size := cfg.KeyPoolSize
	if size == 0 {
		size = DefaultKeyPoolSize
	}
	for _, s := range p.schemes {
		p.stats[s] = new(counters)
		if size > 0 {
			p.pools[s] = newKeyPool(s, size, p.serve, e.keyGroup)
		}
	}
	return p
}

// Close refuses new calls, waits for those in flight, wipes the pooled keys and
// releases the engine. Callers that wait for a pooled key are not waited for:
// they get ErrClosed. It may be called more than once and always returns nil.
func (p *Provider) Close() error {
	p.closeOnce.Do(func() {
		for _, pool := range p.pools {
			pool.close() // also ends the calls that wait for a key
		}
		if p.running.Add(closedBit) != closedBit {
			<-p.idle
		}
		p.engine.close()
	})
	return nil
}

// begin counts a call in; it reports false once the Provider is closed.
func (p *Provider) begin() bool {
	if p.running.Add(1) < closedBit {
		return true
	}
	p.end()
	return false
}

// end counts a call out. The last one after Close lets Close go on. A refused
// begin passes here too, so there can be several last ones; Close wants one.
func (p *Provider) end() {
	if p.running.Add(-1) == closedBit {
		select {
		case p.idle <- struct{}{}:
		default:
		}
	}
}

// serve hands a batch to the engine and counts the results.
func (p *Provider) serve(ctx context.Context, batch []request) {
	func() {
		defer recoverPiece(p.log, p.engine.name(), batch)
		p.engine.serve(ctx, batch)
	}()
	for i := range batch {
		r := &batch[i]
		n := p.counts(r)
		n.count(r.err)
		if r.device {
			n.byGPU.Add(1)
		}
	}
}

// do serves one request and returns its result.
func (p *Provider) do(ctx context.Context, r request) ([]byte, error) {
	if !p.begin() {
		return nil, ErrClosed
	}
	defer p.end()
	batch := batchesOfOne.Get().(*[1]request)
	defer func() {
		batch[0] = request{}
		batchesOfOne.Put(batch)
	}()
	out := make([]byte, outSize(r.op, r.scheme))
	batch[0] = r
	batch[0].out = out
	batch[0].timing = timingOf(ctx)
	p.serve(ctx, batch[:])
	if err := batch[0].err; err != nil {
		clear(out)
		return nil, err
	}
	return out, nil
}

// What a call needs and its caller never sees is used again. An engine touches no
// request after it has served it.
var (
	batchesOfOne = sync.Pool{New: func() any { return new([1]request) }}
	seeds        = sync.Pool{New: func() any { return new([HybridEncapsulationSeedSize]byte) }}
)

// drawSeed returns a random seed of the longest kind, for which wipeSeed is to be called.
func drawSeed() *[HybridEncapsulationSeedSize]byte {
	seed := seeds.Get().(*[HybridEncapsulationSeedSize]byte)
	rand.Read(seed[:])
	return seed
}

func wipeSeed(seed *[HybridEncapsulationSeedSize]byte) {
	clear(seed[:])
	seeds.Put(seed)
}

// refuse counts and returns the error of a call that the engine never sees.
func (p *Provider) refuse(s *ctruprime.Scheme, op operation, err error) error {
	p.stats[s][op].count(err)
	return err
}

// known refuses a scheme that did not come from package ctruprime.
func (p *Provider) known(s *ctruprime.Scheme) error {
	if p.stats[s] == nil {
		return errors.New("provider: unknown parameter set; use ctruprime.Scheme653(), Scheme761() or Scheme1277()")
	}
	return nil
}

// GenerateKey returns a fresh key pair as a packed secret key of
// s.PrivateKeySize() bytes; s.PublicKeyOf returns the public key in it. Where
// there is a pool the key comes from it. Each key is handed out once; its
// holder should clear it after use.
func (p *Provider) GenerateKey(ctx context.Context, s *ctruprime.Scheme) (sk []byte, err error) {
	if err := p.known(s); err != nil {
		return nil, err
	}
	if pool := p.pools[s]; pool != nil {
		if !p.begin() {
			return nil, ErrClosed
		}
		defer p.end()
		sk, err := pool.take(ctx)
		if err != nil {
			p.stats[s][opGenerateKey].count(err)
		}
		return sk, err
	}
	seed := drawSeed()
	defer wipeSeed(seed)
	return p.do(ctx, request{op: opGenerateKey, scheme: s, own: seed[:ctruprime.KeySeedSize]})
}

// FillKeyPool waits until the pool of s holds all the keys that it makes ahead of need:
// Config.KeyPoolSize of them, but for less than one group. The pool otherwise begins with
// the first GenerateKey, and refills in the background. Without a pool there is nothing
// to wait for.
func (p *Provider) FillKeyPool(ctx context.Context, s *ctruprime.Scheme) error {
	if err := p.known(s); err != nil {
		return err
	}
	if pool := p.pools[s]; pool != nil {
		return pool.fill(ctx)
	}
	return nil
}

// Encapsulate makes a shared key of 32 bytes for the packed public key pk
// (s.PublicKeySize() bytes) and its ciphertext of s.CiphertextSize() bytes. An
// invalid public key is a *PeerError.
func (p *Provider) Encapsulate(ctx context.Context, s *ctruprime.Scheme, pk []byte) (ct, ss []byte, err error) {
	if err := p.known(s); err != nil {
		return nil, nil, err
	}
	if err := checkPublicKey(s, pk); err != nil {
		return nil, nil, p.refuse(s, opEncapsulate, err)
	}
	seed := drawSeed()
	defer wipeSeed(seed)
	return split(s.CiphertextSize())(p.do(ctx, request{op: opEncapsulate, scheme: s, peer: pk, own: seed[:ctruprime.SeedSize]}))
}

// Decapsulate returns the shared key of 32 bytes that ct (s.CiphertextSize()
// bytes) holds for the packed secret key sk (s.PrivateKeySize() bytes). A
// tampered ct gives a key that only the holder of sk can compute (implicit
// rejection); a ct of the wrong length is a *PeerError, a malformed sk is not.
func (p *Provider) Decapsulate(ctx context.Context, s *ctruprime.Scheme, sk, ct []byte) (ss []byte, err error) {
	if err := p.known(s); err != nil {
		return nil, err
	}
	if err := checkCiphertext(s, ct); err != nil {
		return nil, p.refuse(s, opDecapsulate, err)
	}
	if err := checkSecretKey(s, sk); err != nil {
		return nil, p.refuse(s, opDecapsulate, err)
	}
	return p.do(ctx, request{op: opDecapsulate, scheme: s, peer: ct, own: sk})
}

// ServerExchange is the server's whole side of a hybrid key exchange: from the
// client's share, x25519 || public key, it makes the server's share,
// x25519 || ciphertext, and the secret of 64 bytes, x25519 || shared key. A bad
// share is a *PeerError.
func (p *Provider) ServerExchange(ctx context.Context, s *ctruprime.Scheme, clientShare []byte) (serverShare, secret []byte, err error) {
	if err := p.known(s); err != nil {
		return nil, nil, err
	}
	seed := drawSeed()
	defer wipeSeed(seed)
	return p.serverExchange(ctx, request{op: opServerExchange, scheme: s, peer: clientShare, own: seed[:], fresh: true})
}

// serverExchange is ServerExchange by a request that is ready but for the client's share
// to be checked.
func (p *Provider) serverExchange(ctx context.Context, r request) (serverShare, secret []byte, err error) {
	if want := x25519Size + r.scheme.PublicKeySize(); len(r.peer) != want {
		return nil, nil, p.refuse(r.scheme, r.op, peerErrorf("client's share is %d bytes, want %d", len(r.peer), want))
	}
	return split(x25519Size + r.scheme.CiphertextSize())(p.do(ctx, r))
}

// ClientFinish is the client's end of a hybrid key exchange: from the server's
// share, x25519 || ciphertext, and the client's two private keys it computes
// the secret of 64 bytes, x25519 || shared key. A bad share is a *PeerError.
func (p *Provider) ClientFinish(ctx context.Context, s *ctruprime.Scheme, x *ecdh.PrivateKey, sk, serverShare []byte) (secret []byte, err error) {
	if err := p.known(s); err != nil {
		return nil, err
	}
	if err := checkSecretKey(s, sk); err != nil {
		return nil, p.refuse(s, opClientFinish, err)
	}
	return p.clientFinish(ctx, s, x, sk, nil, serverShare)
}

// clientFinish takes the KEM's private key packed, or parsed where key is set.
func (p *Provider) clientFinish(ctx context.Context, s *ctruprime.Scheme, x *ecdh.PrivateKey, sk []byte, key *ctruprime.PrivateKey, serverShare []byte) ([]byte, error) {
	if x == nil || x.Curve() != ecdh.X25519() {
		return nil, p.refuse(s, opClientFinish, errors.New("provider: ClientFinish needs an X25519 private key"))
	}
	if want := x25519Size + s.CiphertextSize(); len(serverShare) != want {
		return nil, p.refuse(s, opClientFinish, peerErrorf("server's share is %d bytes, want %d", len(serverShare), want))
	}
	return p.do(ctx, request{op: opClientFinish, scheme: s, peer: serverShare, own: sk, x: x, privateKey: key})
}

func checkPublicKey(s *ctruprime.Scheme, pk []byte) error {
	if len(pk) != s.PublicKeySize() {
		return peerErrorf("%s public key is %d bytes, want %d", s.Name(), len(pk), s.PublicKeySize())
	}
	return nil
}

func checkCiphertext(s *ctruprime.Scheme, ct []byte) error {
	if len(ct) != s.CiphertextSize() {
		return peerErrorf("%s ciphertext is %d bytes, want %d", s.Name(), len(ct), s.CiphertextSize())
	}
	return nil
}

func checkSecretKey(s *ctruprime.Scheme, sk []byte) error {
	if len(sk) != s.PrivateKeySize() {
		return fmt.Errorf("provider: %s secret key is %d bytes, want %d", s.Name(), len(sk), s.PrivateKeySize())
	}
	return nil
}

// split cuts a result after n bytes; neither half can grow into the other.
func split(n int) func([]byte, error) ([]byte, []byte, error) {
	return func(out []byte, err error) ([]byte, []byte, error) {
		if err != nil {
			return nil, nil, err
		}
		return out[:n:n], out[n:], nil
	}
}
