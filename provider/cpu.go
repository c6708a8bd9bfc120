package provider

import (
	"context"
	"crypto/ecdh"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// cpuEngine carries out requests on the CPU: a single one in the caller's
// goroutine, a batch on as many goroutines as there are processors.
type cpuEngine struct {
	log *slog.Logger
	// observe, unless nil, is told how long n requests like r took.
	observe    func(r *request, n int, took time.Duration)
	ephemerals ephemerals
}

func (*cpuEngine) name() string { return "cpu" }

func (*cpuEngine) keyGroup() int { return ctruprime.MaxKeyGroup * runtime.GOMAXPROCS(0) }

func (*cpuEngine) stats(*Stats) {}

func (*cpuEngine) adopt(*signingKey) error { return nil }

func (e *cpuEngine) close() { e.ephemerals.close() }

// serve cuts the batch into pieces and lets each goroutine take the next one. A
// piece is one request, or several that cost less together.
func (e *cpuEngine) serve(ctx context.Context, batch []request) {
	if len(batch) == 1 {
		e.piece(ctx, batch)
		return
	}
	var next atomic.Int64
	pieces := cut(batch)
	work := func() {
		for i := next.Add(1) - 1; i < int64(len(pieces)); i = next.Add(1) - 1 {
			e.piece(ctx, pieces[i])
		}
	}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(pieces)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
}

// hashLanes is how many encapsulations or decapsulations the CPU hashes at once.
const hashLanes = 4

// together is how many requests like r are best carried out as one piece.
func together(r *request) int {
	switch {
	case r.op == opGenerateKey: // they share an inversion
		return ctruprime.MaxKeyGroup
	case r.op == opEncapsulate && r.publicKey == nil, r.op == opDecapsulate && r.privateKey == nil:
		return hashLanes
	}
	return 1
}

// cut splits a batch so that neighbours that cost less together stay together.
func cut(batch []request) [][]request {
	var pieces [][]request
	for len(batch) > 0 {
		first, n := &batch[0], 1
		for most := together(first); n < min(len(batch), most) && alike(first, &batch[n]); {
			n++
		}
		pieces = append(pieces, batch[:n])
		batch = batch[n:]
	}
	return pieces
}

// alike reports whether two requests can be in one piece.
func alike(a, b *request) bool {
	return a.op == b.op && a.scheme == b.scheme && together(a) == together(b)
}

// piece carries out one piece of cut. A panic fails the piece, not the process.
func (e *cpuEngine) piece(ctx context.Context, piece []request) {
	defer recoverPiece(e.log, e.name(), piece)
	if ctx.Err() != nil {
		fail(piece, context.Cause(ctx))
		return
	}
	if r := &piece[0]; r.fresh {
		if made, ok := e.ephemerals.take(); ok {
			r.x, r.ahead = made.key, made.took
		}
	}
	e.compute(piece)
}

// compute carries out a piece's requests.
func (e *cpuEngine) compute(piece []request) {
	r := &piece[0]
	var start time.Time
	if e.observe != nil {
		start = time.Now()
	}
	switch {
	case len(piece) == 1:
		r.err = compute(r)
	case r.op == opGenerateKey:
		generateKeys(piece)
	case r.op == opEncapsulate:
		encapsulateAll(piece)
	case r.op == opDecapsulate:
		decapsulateAll(piece)
	}
	if e.observe != nil && r.err == nil {
		e.observe(r, len(piece), r.ahead+time.Since(start))
	}
}

// compute carries out one request.
func compute(r *request) error {
	if r.op == opSign {
		return signOnCPU(r)
	}
	pk, seed, ct, ss := kemParts(r)
	switch r.op {
	case opGenerateKey:
		return r.scheme.GenerateKeyBytes(r.out, r.own)
	case opServerExchange:
		if err := serverX25519(r); err != nil {
			return err
		}
		return encapsulate(r, ct, ss, pk, seed)
	case opEncapsulate:
		return encapsulate(r, ct, ss, pk, seed)
	case opClientFinish:
		if err := agree(r.out[:x25519Size], r.x, r.peer[:x25519Size]); err != nil {
			return err
		}
		return decapsulate(r, ss, ct)
	default:
		return decapsulate(r, ss, ct)
	}
}

// encapsulateAll carries out at most hashLanes encapsulations to packed keys.
func encapsulateAll(piece []request) {
	var batch [hashLanes]ctruprime.Encapsulation
	n := piece[0].scheme.CiphertextSize()
	for i, r := range piece {
		batch[i] = ctruprime.Encapsulation{Ciphertext: r.out[:n], SharedKey: r.out[n:], PublicKey: r.peer, Seed: r.own}
	}
	piece[0].scheme.EncapsulateBatch(batch[:len(piece)])
	for i := range piece {
		if err := batch[i].Err; err != nil {
			piece[i].err = &PeerError{err} // as in encapsulate
		}
	}
}

// decapsulateAll carries out at most hashLanes decapsulations with packed keys.
func decapsulateAll(piece []request) {
	var batch [hashLanes]ctruprime.Decapsulation
	for i, r := range piece {
		batch[i] = ctruprime.Decapsulation{SharedKey: r.out, PrivateKey: r.own, Ciphertext: r.peer}
	}
	piece[0].scheme.DecapsulateBatch(batch[:len(piece)])
	for i := range piece {
		piece[i].err = batch[i].Err
	}
}

func generateKeys(piece []request) {
	sks, seeds := make([][]byte, len(piece)), make([][]byte, len(piece))
	for i := range piece {
		sks[i], seeds[i] = piece[i].out, piece[i].own
	}
	fail(piece, piece[0].scheme.GenerateKeysBytes(sks, seeds))
}

// fail gives every request of the piece the same result.
func fail(piece []request, err error) {
	for i := range piece {
		piece[i].err = err
	}
}

func encapsulate(r *request, ct, ss, pk, seed []byte) error {
	if r.publicKey != nil {
		return r.scheme.EncapsulateTo(ct, ss, r.publicKey, seed)
	}
	if err := r.scheme.EncapsulateBytes(ct, ss, pk, seed); err != nil {
		return &PeerError{err} // lengths are checked: only the key's content can be wrong
	}
	return nil
}

func decapsulate(r *request, ss, ct []byte) error {
	if r.privateKey != nil {
		return r.scheme.DecapsulateTo(ss, r.privateKey, ct)
	}
	return r.scheme.DecapsulateBytes(ss, r.own, ct)
}

// serverX25519 makes the server's ephemeral X25519 share and the secret of it.
func serverX25519(r *request) error {
	x := r.x
	if x == nil {
		var err error
		if x, err = ecdh.X25519().NewPrivateKey(r.own[:x25519Size]); err != nil {
			return err
		}
	}
	if err := agree(x25519Secret(r), x, r.peer[:x25519Size]); err != nil {
		return err
	}
	copy(r.out, x.PublicKey().Bytes())
	return nil
}

// agree computes an X25519 shared secret (RFC 7748, section 6.1) into secret.
func agree(secret []byte, x *ecdh.PrivateKey, peer []byte) error {
	point, err := ecdh.X25519().NewPublicKey(peer)
	if err != nil {
		return err
	}
	shared, err := x.ECDH(point)
	if err != nil {
		return &PeerError{err} // a point of low order
	}
	copy(secret, shared)
	clear(shared)
	return nil
}
