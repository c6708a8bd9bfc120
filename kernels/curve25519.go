package kernels

import "fmt"

//go:generate go run ./internal/gentables .

// X25519Size is the size in bytes of a private key, a u-coordinate and a shared secret (RFC 7748).
const X25519Size = 32

// X25519Operation is what a batch of X25519 does.
type X25519Operation int

const (
	X25519Shared X25519Operation = iota // shared secrets with given peers
	X25519Public                        // public keys
	X25519Pair                          // both: the server's side of an exchange
)

// X25519Operations lists them.
func X25519Operations() []X25519Operation {
	return []X25519Operation{X25519Shared, X25519Public, X25519Pair}
}

// String returns the operation's name.
func (o X25519Operation) String() string {
	switch o {
	case X25519Shared:
		return "shared"
	case X25519Public:
		return "public"
	case X25519Pair:
		return "pair"
	}
	return fmt.Sprintf("X25519Operation(%d)", int(o))
}

// X25519Shape is how many lanes an operation gets: many for a few operations, which are then sooner done, one for
// the most operations a second. All give the same bytes. The zero value leaves the choice to PlanX25519.
type X25519Shape int

const (
	X25519DefaultShape X25519Shape = iota
	X25519Warp
	X25519Lanes4
	X25519Thread
)

// X25519Shapes lists what an X25519Shape can be, the default apart.
func X25519Shapes() []X25519Shape {
	return []X25519Shape{X25519Warp, X25519Lanes4, X25519Thread}
}

// String returns the name in the kernels' entries.
func (s X25519Shape) String() string {
	switch s {
	case X25519DefaultShape:
		return "default"
	case X25519Warp:
		return "warp"
	case X25519Lanes4:
		return "lanes4"
	case X25519Thread:
		return "thread"
	}
	return fmt.Sprintf("X25519Shape(%d)", int(s))
}

// x25519Blocks is how a shape spreads operations over blocks.
type x25519Blocks struct {
	kernel  string
	threads int // a block
	shared  int // operations a block: shared secrets
	public  int // and public keys
	upTo    int // the shape of choice up to so many operations a multiprocessor
}

// The bounds are where the shapes' times for pairs cross on an H200, at 1.3k and 6.3k operations on 132 multiprocessors
// (docs/performance/curves-2026-11-30.md).
var x25519Shapes = map[X25519Shape]x25519Blocks{
	X25519Warp:   {kernel: "x25519_warp", threads: 32, shared: 1, public: 8, upTo: 10},
	X25519Lanes4: {kernel: "x25519_lanes4", threads: 32, shared: 8, public: 8, upTo: 48},
	X25519Thread: {kernel: "x25519_thread", threads: 128, shared: 128, public: 128},
}

// An X25519Plan is the one launch that runs a batch. Rows, one an operation, are aligned to 16 bytes:
//
//	operation      input                                 output                     status
//	X25519Shared   private key || u-coordinate    64     shared secret        32    1 if that is all zeros, else 0
//	X25519Public   private key                    32     public key           32    none
//	X25519Pair     private key || u-coordinate    64     public key || shared secret 64, status as for X25519Shared
//
// As RFC 7748, section 5 says, private keys are clamped, and a u-coordinate's top bit is ignored and the rest taken modulo p:
// every input is valid. An all-zero shared secret, which comes of the points of low order alone, is reported so that
// the caller can refuse it (section 6.1). Status is a little-endian uint32.
type X25519Plan struct {
	Operation  X25519Operation
	Shape      X25519Shape
	Batch      int
	InputSize  int // bytes of the batch's rows
	OutputSize int
	StatusSize int
	Launch     Launch
}

// PlanX25519 plans n operations on a device, or says what cannot be.
func PlanX25519(op X25519Operation, n int, dev Device, shape X25519Shape) (X25519Plan, error) {
	if n < 1 || n > MaxBatch {
		return X25519Plan{}, fmt.Errorf("kernels: a batch has 1 to %d operations, not %d", MaxBatch, n)
	}
	if dev.Multiprocessors < 1 {
		return X25519Plan{}, fmt.Errorf("kernels: a device has at least one multiprocessor, not %d", dev.Multiprocessors)
	}
	if op < X25519Shared || op > X25519Pair {
		return X25519Plan{}, fmt.Errorf("kernels: there is no operation %s", op)
	}
	if shape == X25519DefaultShape {
		shape = x25519DefaultShape(n, dev)
	}
	if _, ok := x25519Shapes[shape]; !ok {
		return X25519Plan{}, fmt.Errorf("kernels: x25519 has no shape %s", shape)
	}
	p := X25519Plan{Operation: op, Shape: shape, Batch: n}
	rows := x25519Rows{input: 2 * X25519Size, output: X25519Size}
	switch op {
	case X25519Public:
		rows.input = X25519Size
	case X25519Pair:
		rows.output, rows.secret = 2*X25519Size, X25519Size
	}
	p.InputSize, p.OutputSize = n*rows.input, n*rows.output
	if op != X25519Public {
		p.StatusSize = statusSize * n
	}
	p.Launch = x25519Launch(op, n, shape, rows)
	return p, nil
}

// x25519Rows says where a launch finds its rows: at the beginning of wider ones, whose sizes are multiples of 16.
type x25519Rows struct {
	input, output int // bytes of the wider rows
	secret        int // where in an output row the shared secret begins
	status        int // where in the buffer of statuses its own begin
}

// x25519Launch is the launch for n operations in a shape.
func x25519Launch(op X25519Operation, n int, shape X25519Shape, rows x25519Rows) Launch {
	blocks := x25519Shapes[shape]
	ladders, publics := ceilDiv(n, blocks.shared), ceilDiv(n, blocks.public)
	switch op {
	case X25519Shared:
		publics = 0
	case X25519Public:
		ladders = 0
	}
	l := Launch{
		Module: Module{Curve: Curve25519},
		Kernel: blocks.kernel,
		Grid:   [2]uint32{uint32(ladders + publics), 1},
		Block:  uint32(blocks.threads),
	}
	l.pointer(Input, 0).number(rows.input).pointer(Output, 0).pointer(Output, rows.secret).number(rows.output).pointer(Status, rows.status).number(n).number(ladders)
	return l
}

// x25519DefaultShape chooses by the batch's size.
func x25519DefaultShape(n int, dev Device) X25519Shape {
	for _, shape := range []X25519Shape{X25519Warp, X25519Lanes4} {
		if n <= x25519Shapes[shape].upTo*dev.Multiprocessors {
			return shape
		}
	}
	return X25519Thread
}
