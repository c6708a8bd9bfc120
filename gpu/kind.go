package gpu

import (
	"fmt"

	"github.com/ctrutls/ctrutls/kernels"
)

// Operation is what a batch does; package kernels describes its rows.
type Operation = kernels.Operation

// The operations.
const (
	Encaps = kernels.Encaps
	Decaps = kernels.Decaps
	KeyGen = kernels.KeyGen
)

// A Kind is an operation of a parameter set. Rows of one kind form batches.
type Kind struct {
	index     int // in Engine.kinds
	set       *kernels.Set
	operation Operation
	input     int // bytes a row
	output    int
	capacity  int // rows
	results   int // where a buffer's results begin: statuses, then outputs
}

// InputSize returns the bytes of an input row.
func (k *Kind) InputSize() int { return k.input }

// OutputSize returns the bytes of an output row.
func (k *Kind) OutputSize() int { return k.output }

// Operation returns what the kind's rows ask for.
func (k *Kind) Operation() Operation { return k.operation }

func (k *Kind) String() string { return fmt.Sprintf("CTRU-Prime-%d %s", k.set.N(), k.operation) }

// statusSize is the size in bytes of a row's status.
const statusSize = 4

// statuses returns the bytes that n rows' statuses take in front of their outputs.
func statuses(n int) int { return aligned(statusSize * n) }

// bufferSize returns the bytes of a full batch.
func (k *Kind) bufferSize() int { return k.results + statuses(k.capacity) + k.capacity*k.output }

// aligned rounds up to the alignment of a plan's buffers.
func aligned(n int) int { return (n + 255) &^ 255 }

// newKinds returns every operation of the sets.
func newKinds(sets []int, capacity int) ([]*Kind, error) {
	var kinds []*Kind
	for _, n := range sets {
		set, err := kernels.NewSet(n)
		if err != nil {
			return nil, fmt.Errorf("%w: Sets: %w", ErrConfig, err)
		}
		for _, op := range kernels.Operations() {
			k := &Kind{index: len(kinds), set: set, operation: op, input: set.InputSize(op, false), output: set.OutputSize(op), capacity: capacity}
			k.results = aligned(capacity * k.input)
			kinds = append(kinds, k)
		}
	}
	return kinds, nil
}
