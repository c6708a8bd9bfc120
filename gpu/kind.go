package gpu

import (
	"fmt"
	"slices"

	"github.com/ctrutls/ctrutls/kernels"
)

// Operation is what a row asks for; package kernels describes the rows.
type Operation int

// The operations.
const (
	Encaps Operation = iota
	Decaps
	KeyGen
	// Both halves of a hybrid key exchange, of X25519 and a parameter set; see kernels.PlanExchange.
	ServerExchange
	ClientFinish
	// An ECDSA signature on P-256, which is of no parameter set; see Engine.SigningKind.
	Sign
)

// Operations lists those of a parameter set.
func Operations() []Operation {
	return []Operation{Encaps, Decaps, KeyGen, ServerExchange, ClientFinish}
}

// String returns the operation's name.
func (o Operation) String() string {
	switch o {
	case Encaps:
		return kernels.Encaps.String()
	case Decaps:
		return kernels.Decaps.String()
	case KeyGen:
		return kernels.KeyGen.String()
	case ServerExchange:
		return kernels.ServerExchange.String()
	case ClientFinish:
		return kernels.ClientFinish.String()
	case Sign:
		return "sign"
	}
	return fmt.Sprintf("Operation(%d)", int(o))
}

// A Kind is what rows that form batches have in common: their sizes and what is launched for them. It is immutable.
type Kind struct {
	index     int // in Engine.kinds; kinds that are measured together have the same
	queue     int // which of a session's queues its batches pass through
	set       int // the parameter set's degree; 0 for signatures
	operation Operation
	rows
	plan     planner
	kem      *kem        // what Jobs have to know of a KEM operation; nil for all others
	key      *signingKey // nil but for signatures
	capacity int         // rows of a batch
	results  int         // where a buffer's results begin: statuses, then outputs
}

// rows are what one row takes.
type rows struct {
	input  int // bytes
	output int
	words  int // of status, 1 or 2
}

// A planner fills a plan with the launches for n rows on a device. The plan's buffers hold rows as the kind says, inputs and outputs one after
// another, the first words of all rows' statuses and then the second ones.
type planner func(p *kernels.Plan, n int, dev kernels.Device) error

// kem is an operation of a parameter set.
type kem struct {
	set       *kernels.Set
	operation kernels.Operation
}

// InputSize returns the bytes of an input row.
func (k *Kind) InputSize() int { return k.input }

// OutputSize returns the bytes of an output row.
func (k *Kind) OutputSize() int { return k.output }

// Operation returns what the kind's rows ask for.
func (k *Kind) Operation() Operation { return k.operation }

func (k *Kind) String() string {
	if k.operation == Sign {
		return "ECDSA P-256 sign"
	}
	return fmt.Sprintf("CTRU-Prime-%d %s", k.set, k.operation)
}

// statusSize is the size in bytes of a word of a row's status.
const statusSize = 4

// statuses returns the bytes that n rows' statuses take in front of their outputs.
func (k *Kind) statuses(n int) int { return aligned(statusSize * k.words * n) }

// bufferSize returns the bytes of a full batch.
func (k *Kind) bufferSize() int { return k.results + k.statuses(k.capacity) + k.capacity*k.output }

// aligned rounds up to the alignment of a plan's buffers.
func aligned(n int) int { return (n + 255) &^ 255 }

// maps says whether a plan's kernels are to reach for the host's memory instead of having it copied: small batches of Encaps take less time than
// the copies' start. On an H200 that is 27 us instead of 35 for 64, 32 instead of 47 for 256, and no more for 1,024. Batches of ServerExchange
// of up to 1,024 take 4 to 9 % less, and a fifth less of the processor's time. Decaps, which reads its input in smaller pieces, takes longer.
func (c *Config) maps(k *Kind, p *kernels.Plan) bool {
	return p.Shape == kernels.One && (k.operation == Encaps || k.operation == ServerExchange && !c.CopyExchanges)
}

// newKinds returns every operation of the sets, and last, if there are to be signatures, the kind of those by no key.
func newKinds(cfg *Config) ([]*Kind, error) {
	var kinds []*Kind
	for _, n := range cfg.Sets {
		for _, op := range Operations() {
			k, err := newKind(n, op, cfg.Capacity)
			if err != nil {
				return nil, fmt.Errorf("%w: Sets: %w", ErrConfig, err)
			}
			k.index, k.queue = len(kinds), len(kinds)
			kinds = append(kinds, k)
		}
	}
	if cfg.Sign {
		kinds = append(kinds, newSigningKind(len(kinds), cfg.Capacity))
	}
	return kinds, nil
}

// RowSizes returns the bytes of the input and output rows of an operation of the parameter set of degree n.
func RowSizes(n int, op Operation) (input, output int, err error) {
	k, err := newKind(n, op, 1)
	if err != nil {
		return 0, 0, fmt.Errorf("gpu: %w", err)
	}
	return k.input, k.output, nil
}

// newKind returns the kind of an operation of a set.
func newKind(n int, op Operation, capacity int) (*Kind, error) {
	set, err := kernels.NewSet(n)
	if err != nil {
		return nil, err
	}
	k := &Kind{set: n, operation: op, capacity: capacity}
	switch op {
	case ServerExchange:
		k.exchange(set, kernels.ServerExchange)
	case ClientFinish:
		k.exchange(set, kernels.ClientFinish)
	case Encaps:
		k.ofKEM(set, kernels.Encaps)
	case Decaps:
		k.ofKEM(set, kernels.Decaps)
	case KeyGen:
		k.ofKEM(set, kernels.KeyGen)
	default:
		return nil, fmt.Errorf("there is no operation %v", op)
	}
	k.results = aligned(capacity * k.input)
	return k, nil
}

func (k *Kind) ofKEM(set *kernels.Set, op kernels.Operation) {
	k.rows = rows{input: set.InputSize(op, false), output: set.OutputSize(op), words: 1}
	k.kem = &kem{set, op}
	k.plan = func(p *kernels.Plan, n int, dev kernels.Device) error {
		return set.Plan(p, op, n, dev, kernels.Options{})
	}
}

func (k *Kind) exchange(set *kernels.Set, x kernels.Exchange) {
	k.rows = rows{input: set.ExchangeInputSize(x), output: set.ExchangeOutputSize(x), words: 2}
	k.plan = func(p *kernels.Plan, n int, dev kernels.Device) error {
		return set.PlanExchange(p, x, n, dev, kernels.ExchangeOptions{})
	}
}

// A need is what a device must have for all batches of the engine's kinds.
type need struct {
	buffer  int // bytes of a batch
	scratch int // bytes
	modules []kernels.Module
}

// need finds out by planning batches.
func (d *device) need() (need, error) {
	var all need
	var plan kernels.Plan
	for _, k := range d.engine.kinds {
		all.buffer = max(all.buffer, k.bufferSize())
		// The scratch memory of a plan does not always grow with the batch, since its shape changes: try sizes of all orders.
		for n := k.capacity; n > 0; n /= 2 {
			if err := k.plan(&plan, n, d.shape()); err != nil {
				return all, err
			}
			all.scratch = max(all.scratch, plan.ScratchSize)
			for _, l := range slices.Concat(plan.Launches, plan.Beside) {
				if !slices.Contains(all.modules, l.Module) {
					all.modules = append(all.modules, l.Module)
				}
			}
		}
	}
	return all, nil
}
