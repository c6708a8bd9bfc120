//go:build !nogpu

package provider

import (
	"bytes"
	"crypto/ecdh"
	"errors"
	"fmt"

	"github.com/ctrutls/ctrutls/gpu"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// deviceOperations are the devices' operations by ours. Package kernels says what
// is in their rows.
var deviceOperations = [operations]gpu.Operation{
	opGenerateKey: gpu.KeyGen, opEncapsulate: gpu.Encaps, opDecapsulate: gpu.Decaps,
	opServerExchange: gpu.ServerExchange, opClientFinish: gpu.ClientFinish,
}

// fill writes a request's input row.
func fill(row []byte, r *request) {
	if r.op == opSign {
		fillSignature(row, r)
		return
	}
	pk, seed, ct, _ := kemParts(r)
	switch r.op {
	case opGenerateKey:
		copy(row, r.own)
	case opEncapsulate:
		copy(row[copy(row, pk):], seed)
	case opDecapsulate:
		copy(row[copy(row, r.own):], ct)
	case opServerExchange:
		row = row[copy(row, r.own[:x25519Size]):]
		copy(row[copy(row, r.peer):], seed)
	case opClientFinish:
		private := r.x.Bytes()
		row = row[copy(row, private):]
		clear(private)
		row = row[copy(row, r.peer[:x25519Size]):]
		copy(row[copy(row, r.own):], ct)
	}
}

// take copies an output row to where the request wants it.
func take(r *request, row []byte) {
	if r.op == opSign {
		putDER(r.out, row)
		return
	}
	_, _, ct, ss := kemParts(r)
	switch r.op {
	case opGenerateKey, opDecapsulate, opClientFinish:
		copy(r.out, row)
	case opEncapsulate:
		copy(ss, row[copy(ct, row):])
	case opServerExchange:
		copy(r.out, row[:x25519Size])
		copy(x25519Secret(r), row[x25519Size:])
		row = row[2*x25519Size:]
		copy(ss, row[copy(ct, row):])
	}
}

// spell writes the output row of a request that was carried out: take's inverse.
func spell(row []byte, r *request) {
	_, _, ct, ss := kemParts(r)
	switch r.op {
	case opGenerateKey, opDecapsulate, opClientFinish:
		copy(row, r.out)
	case opEncapsulate:
		copy(row[copy(row, ct):], ss)
	case opServerExchange:
		row = row[copy(row, r.out[:x25519Size]):]
		row = row[copy(row, x25519Secret(r)):]
		copy(row[copy(row, ct):], ss)
	}
}

// probes returns one operation of each kind of a parameter set of degree n with
// the CPU's result.
func probes(s *ctruprime.Scheme, n int) ([]gpu.Probe, error) {
	seed := make([]byte, ctruprime.KeySeedSize)
	for i := range seed {
		seed[i] = byte(i)
	}
	x, err := ecdh.X25519().NewPrivateKey(seed[:x25519Size])
	if err != nil {
		return nil, fmt.Errorf("provider: %w", err)
	}
	var probes []gpu.Probe
	var errs []error
	run := func(op operation, peer, own []byte) (out []byte) {
		r := &request{op: op, scheme: s, x: x, peer: peer, own: own, out: make([]byte, outSize(op, s))}
		p := gpu.Probe{Set: n, Operation: deviceOperations[op]}
		input, output, err := gpu.RowSizes(n, p.Operation)
		errs = append(errs, err, compute(r))
		p.Input, p.Output = make([]byte, input), make([]byte, output)
		fill(p.Input, r)
		spell(p.Output, r)
		probes = append(probes, p)
		return r.out
	}
	sk := run(opGenerateKey, nil, seed)
	pk := s.PublicKeyOf(sk)
	ct := run(opEncapsulate, pk, seed[:ctruprime.SeedSize])[:s.CiphertextSize()]
	run(opDecapsulate, ct, sk)
	share := run(opServerExchange, join(x.PublicKey().Bytes(), pk), seed[:HybridEncapsulationSeedSize])[:x25519Size+s.CiphertextSize()]
	run(opClientFinish, share, sk)
	return probes, errors.Join(errs...)
}

func join(a, b []byte) []byte { return append(bytes.Clone(a), b...) }
