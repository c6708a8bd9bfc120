package kernels

import (
	"encoding/binary"
	"fmt"
	"math/big"

	"github.com/ctrutls/ctrutls/kernels/internal/combtable"
)

// Sizes in bytes, of big-endian numbers and pairs of them.
const (
	P256NumberSize    = 32 // a private key, nonce or digest
	P256SignatureSize = 2 * P256NumberSize
	p256PointSize     = 1 + 2*P256NumberSize // SEC 1, uncompressed
	p256TableSize     = 4 * 16 * combtable.Windows * combtable.Entries
	// P256KeySize is the size of what P256Key makes of a key.
	P256KeySize = p256TableSize + P256NumberSize
)

// What a status of P256 says.
const (
	P256Signed       = 0 // the output row is a signature, which has been checked
	P256AnotherNonce = 1 // r or s is zero, or the nonce is: take another
	P256Wrong        = 2 // the check failed: something is broken
)

// P256Shape is how many lanes a signature gets. The zero value leaves the choice to PlanP256.
type P256Shape int

const (
	P256DefaultShape P256Shape = iota
	P256Lanes                  // eight to sign, sixteen to check: for a few signatures, soon done
	P256Thread                 // one: for the most signatures a second
)

// P256Shapes lists what a P256Shape can be, the default apart.
func P256Shapes() []P256Shape { return []P256Shape{P256Lanes, P256Thread} }

// String returns the shape's name.
func (s P256Shape) String() string {
	switch s {
	case P256DefaultShape:
		return "default"
	case P256Lanes:
		return "lanes"
	case P256Thread:
		return "thread"
	}
	return fmt.Sprintf("P256Shape(%d)", int(s))
}

// p256LanesUpTo is up to how many signatures a multiprocessor P256Lanes is sooner done, checks included: 6.1k on an H200
// (docs/performance/curves-2026-11-30.md).
const p256LanesUpTo = 46

// P256Key returns what the kernels need of a signing key, for the Table buffer of its plans: odd multiples of the public key, which
// lets signatures be checked, and the private key. private is a number below the order, public a point in SEC 1's uncompressed form. The
// caller wipes the result; making it takes some 50 ms.
func P256Key(private, public []byte) ([]byte, error) {
	if len(private) != P256NumberSize {
		return nil, fmt.Errorf("kernels: a P-256 private key has %d bytes, not %d", P256NumberSize, len(private))
	}
	if len(public) != p256PointSize || public[0] != 4 {
		return nil, fmt.Errorf("kernels: a P-256 public key is %d bytes that begin with 4 (SEC 1, uncompressed)", p256PointSize)
	}
	x, y := new(big.Int).SetBytes(public[1:1+P256NumberSize]), new(big.Int).SetBytes(public[1+P256NumberSize:])
	table, err := combtable.P256(x, y)
	if err != nil {
		return nil, fmt.Errorf("kernels: P-256 public key: %w", err)
	}
	key := make([]byte, 0, P256KeySize)
	for _, word := range table {
		key = binary.LittleEndian.AppendUint32(key, word)
	}
	return append(key, private...), nil
}

// A P256Plan is the two launches that sign a batch with one key and check the signatures. Buffers:
//
//	Input    nonce || digest, 64 bytes an operation
//	Table    what P256Key makes of the key
//	Scratch  64 bytes an operation, wiped by the launches
//	Output   r || s, 64 bytes an operation, zeros unless the status is P256Signed
//	Status   a little-endian uint32 an operation
//
// A nonce is a number from 1 to the order less 1 that is used once and that nobody can guess or bias, as one learns the private key
// from any other; the kernel takes it modulo the order. A digest is the leftmost 256 bits of the hash (FIPS 186-5, section 6.4.1).
type P256Plan struct {
	Shape       P256Shape
	Batch       int
	InputSize   int // bytes
	OutputSize  int
	StatusSize  int
	ScratchSize int
	Launches    [2]Launch
}

// PlanP256 plans n signatures on a device, or says what cannot be.
func PlanP256(n int, dev Device, shape P256Shape) (P256Plan, error) {
	if n < 1 || n > MaxBatch {
		return P256Plan{}, fmt.Errorf("kernels: a batch has 1 to %d operations, not %d", MaxBatch, n)
	}
	if dev.Multiprocessors < 1 {
		return P256Plan{}, fmt.Errorf("kernels: a device has at least one multiprocessor, not %d", dev.Multiprocessors)
	}
	if shape == P256DefaultShape {
		shape = P256Thread
		if n <= p256LanesUpTo*dev.Multiprocessors {
			shape = P256Lanes
		}
	}
	var kernels [2]string          // that sign and check
	var threads, signs, checks int // of a block
	switch shape {
	case P256Lanes:
		kernels, threads, signs, checks = [2]string{"p256_sign_lanes8", "p256_check_lanes16"}, 32, 4, 2
	case P256Thread:
		kernels, threads, signs, checks = [2]string{"p256_sign_thread", "p256_check_thread"}, 128, 128, 128
	default:
		return P256Plan{}, fmt.Errorf("kernels: p256 has no shape %s", shape)
	}
	p := P256Plan{
		Shape: shape, Batch: n,
		InputSize: 2 * P256NumberSize * n, OutputSize: P256SignatureSize * n, StatusSize: 4 * n, ScratchSize: P256SignatureSize * n,
	}
	for i, kernel := range kernels {
		p.Launches[i] = Launch{Module: Module{Curve: P256}, Kernel: kernel, Grid: [2]uint32{1, 1}, Block: uint32(threads)}
		p.Launches[i].pointer(Input, 0).number(2*P256NumberSize).pointer(Scratch, 0)
	}
	p.Launches[0].Grid[0] = uint32(ceilDiv(n, signs))
	p.Launches[0].pointer(Table, p256TableSize).number(n)
	p.Launches[1].Grid[0] = uint32(ceilDiv(n, checks))
	p.Launches[1].pointer(Table, 0).pointer(Output, 0).number(P256SignatureSize).pointer(Status, 0).number(n)
	return p, nil
}
