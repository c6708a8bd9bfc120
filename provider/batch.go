package provider

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// Encapsulated is one result of EncapsulateBatch.
type Encapsulated struct {
	Ciphertext, SharedKey []byte
	Err                   error
}

// Decapsulated is one result of DecapsulateBatch.
type Decapsulated struct {
	SharedKey []byte
	Err       error
}

// GenerateKeyBatch returns n fresh packed secret keys of s.PrivateKeySize()
// bytes, n at most MaxBatch. It does not draw on the pool: the batch shares its
// inversions.
func (p *Provider) GenerateKeyBatch(ctx context.Context, s *ctruprime.Scheme, n int) ([][]byte, error) {
	if n < 0 {
		return nil, fmt.Errorf("provider: GenerateKeyBatch of %d keys", n)
	}
	batch, err := p.doBatch(ctx, s, opGenerateKey, n, ctruprime.KeySeedSize, func(int, *request) error { return nil })
	if err != nil {
		return nil, err
	}
	sks := make([][]byte, n)
	for i := range batch {
		if batch[i].err != nil {
			err = batch[i].err
		}
		sks[i] = batch[i].out
	}
	if err != nil {
		for _, sk := range sks {
			clear(sk)
		}
		return nil, err
	}
	return sks, nil
}

// EncapsulateBatch is Encapsulate for each of pks, at most MaxBatch. A bad key
// fails its own result only; the error is for the batch as a whole.
func (p *Provider) EncapsulateBatch(ctx context.Context, s *ctruprime.Scheme, pks [][]byte) ([]Encapsulated, error) {
	batch, err := p.doBatch(ctx, s, opEncapsulate, len(pks), ctruprime.SeedSize, func(i int, r *request) error {
		r.peer = pks[i]
		return checkPublicKey(s, pks[i])
	})
	if err != nil {
		return nil, err
	}
	results := make([]Encapsulated, len(batch))
	for i := range batch {
		results[i].Ciphertext, results[i].SharedKey, results[i].Err = split(s.CiphertextSize())(batch[i].out, batch[i].err)
	}
	return results, nil
}

// DecapsulateBatch is Decapsulate for each pair of sks[i] and cts[i], at most
// MaxBatch. A bad key or ciphertext fails its own result only; the error is for
// the batch as a whole.
func (p *Provider) DecapsulateBatch(ctx context.Context, s *ctruprime.Scheme, sks, cts [][]byte) ([]Decapsulated, error) {
	if len(sks) != len(cts) {
		return nil, fmt.Errorf("provider: DecapsulateBatch of %d secret keys and %d ciphertexts; give one of each", len(sks), len(cts))
	}
	batch, err := p.doBatch(ctx, s, opDecapsulate, len(cts), 0, func(i int, r *request) error {
		r.peer, r.own = cts[i], sks[i]
		if err := checkCiphertext(s, cts[i]); err != nil {
			return err
		}
		return checkSecretKey(s, sks[i])
	})
	if err != nil {
		return nil, err
	}
	results := make([]Decapsulated, len(batch))
	for i := range batch {
		results[i] = Decapsulated{batch[i].out, batch[i].err}
	}
	return results, nil
}

// doBatch serves n requests, each with a seed of seedSize bytes of its own.
// fill completes the i-th; where it refuses, the engine never sees that one.
func (p *Provider) doBatch(ctx context.Context, s *ctruprime.Scheme, op operation, n, seedSize int, fill func(int, *request) error) ([]request, error) {
	if err := p.known(s); err != nil {
		return nil, err
	}
	if n > MaxBatch {
		return nil, fmt.Errorf("provider: a batch of %d operations; the most is %d", n, MaxBatch)
	}
	if !p.begin() {
		return nil, ErrClosed
	}
	defer p.end()
	seeds := make([]byte, n*seedSize)
	rand.Read(seeds)
	defer clear(seeds)

	all := make([]request, n)
	served := make([]request, 0, n)
	for i := range all {
		r := &all[i]
		*r = request{op: op, scheme: s, own: seeds[i*seedSize : (i+1)*seedSize]}
		if r.err = fill(i, r); r.err == nil {
			r.out = make([]byte, outSize(op, s))
			served = append(served, *r)
		} else {
			p.stats[s][op].count(r.err)
		}
	}
	p.serve(ctx, served)
	next := 0
	for i := range all {
		if all[i].err != nil {
			continue
		}
		if all[i].err = served[next].err; all[i].err != nil {
			clear(all[i].out)
			all[i].out = nil
		}
		next++
	}
	return all, nil
}
