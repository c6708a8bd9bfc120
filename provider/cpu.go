package provider

import (
	"context"
	"crypto/ecdh"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// cpuEngine carries out requests on the CPU: a single one in the caller's
// goroutine, a batch on as many goroutines as there are processors.
type cpuEngine struct {
	log *slog.Logger
}

func (*cpuEngine) name() string { return "cpu" }

func (*cpuEngine) close() {}

// serve cuts the batch into pieces and lets each goroutine take the next one. A
// piece is one request, or a run of key generations that share an inversion.
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

// cut splits a batch so that neighbouring key generations of one scheme stay
// together, at most ctruprime.MaxKeyGroup of them.
func cut(batch []request) [][]request {
	var pieces [][]request
	for len(batch) > 0 {
		n := 1
		if batch[0].op == opGenerateKey {
			for n < min(len(batch), ctruprime.MaxKeyGroup) &&
				batch[n].op == opGenerateKey && batch[n].scheme == batch[0].scheme {
				n++
			}
		}
		pieces = append(pieces, batch[:n])
		batch = batch[n:]
	}
	return pieces
}

// piece carries out one piece of cut. A panic fails the piece, not the process.
func (e *cpuEngine) piece(ctx context.Context, piece []request) {
	defer recoverPiece(e.log, e.name(), piece)
	if ctx.Err() != nil {
		fail(piece, context.Cause(ctx))
		return
	}
	if len(piece) > 1 {
		generateKeys(piece)
		return
	}
	r := &piece[0]
	switch r.op {
	case opGenerateKey:
		r.err = r.scheme.GenerateKeyBytes(r.out, r.own)
	case opEncapsulate:
		n := r.scheme.CiphertextSize()
		r.err = encapsulate(r, r.out[:n], r.out[n:], r.peer, r.own)
	case opDecapsulate:
		r.err = decapsulate(r, r.out, r.peer)
	case opServerExchange:
		r.err = serverExchange(r)
	case opClientFinish:
		r.err = clientFinish(r)
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

func serverExchange(r *request) error {
	ctEnd := x25519Size + r.scheme.CiphertextSize()
	share, secret := r.out[:ctEnd], r.out[ctEnd:]
	x, err := ecdh.X25519().NewPrivateKey(r.own[:x25519Size])
	if err != nil {
		return err
	}
	if err := agree(secret[:x25519Size], x, r.peer[:x25519Size]); err != nil {
		return err
	}
	copy(share, x.PublicKey().Bytes())
	return encapsulate(r, share[x25519Size:], secret[x25519Size:], r.peer[x25519Size:], r.own[x25519Size:])
}

func clientFinish(r *request) error {
	if err := agree(r.out[:x25519Size], r.x, r.peer[:x25519Size]); err != nil {
		return err
	}
	return decapsulate(r, r.out[x25519Size:], r.peer[x25519Size:])
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
