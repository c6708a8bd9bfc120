package gpu

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/ctrutls/ctrutls/kernels"
)

// MaxSigningKeys is the most keys for which an engine has kinds at a time. Each takes 156 kB of memory.
const MaxSigningKeys = 256

// signingQueues is how many keys' batches a device collects side by side. Where there are more, some share a queue, and rows of one end
// the batch of the other: it comes to smaller batches, and at last, as there are no buffers for more, to ErrBusy.
const signingQueues = 16

// ErrSigningKeys says that there are MaxSigningKeys kinds of signatures.
var ErrSigningKeys = errors.New("gpu: too many signing keys; those whose Kinds are garbage make room")

var errNoSignatures = fmt.Errorf("%w: Sign is not set", ErrConfig)

// A SigningKey is an ECDSA key on P-256.
type SigningKey struct {
	Private []byte // 32 bytes, a big-endian number
	Public  []byte // 65 bytes, SEC 1's uncompressed point
}

// A signingKey is what devices need of one. It is in Go's memory, and in a worker's memory on the device: the public part as long as no batch by
// another key follows, the private part during a batch.
type signingKey struct {
	number uint64 // tells keys apart, from 1
	bytes  []byte // kernels.P256KeySize: the public part, and the private key
}

const publicKeyPart = kernels.P256KeySize - kernels.P256NumberSize

// signingKeys counts those of an engine.
type signingKeys struct {
	made  atomic.Uint64
	alive atomic.Int64
}

// newSigningKind returns the kind of signatures by no key.
func newSigningKind(index, capacity int) *Kind {
	k := &Kind{index: index, queue: index, operation: Sign, capacity: capacity, plan: planSignatures}
	k.rows = rows{input: 2 * kernels.P256NumberSize, output: kernels.P256SignatureSize, words: 1}
	k.results = aligned(k.capacity * k.input)
	return k
}

// planSignatures is a planner.
func planSignatures(p *kernels.Plan, n int, dev kernels.Device) error {
	q, err := kernels.PlanP256(n, dev, kernels.P256DefaultShape)
	if err != nil {
		return err
	}
	*p = kernels.Plan{Batch: n, InputSize: q.InputSize, OutputSize: q.OutputSize, StatusSize: q.StatusSize, ScratchSize: q.ScratchSize,
		Launches: append(p.Launches[:0], q.Launches[:]...), Beside: p.Beside[:0]}
	return nil
}

// SigningKind returns the kind of signatures by a key, for an engine with Config.Sign; kernels.P256Plan says what is in its rows. Every call makes
// another, whose rows form batches of their own. It takes some 50 ms, copies the key, and wipes the copy when the Kind is garbage. The error is
// ErrSigningKeys, or says what is wrong with the key.
func (e *Engine) SigningKind(key SigningKey) (*Kind, error) {
	if !e.config.Sign {
		return nil, errNoSignatures
	}
	if e.signing.alive.Add(1) > MaxSigningKeys {
		e.signing.alive.Add(-1)
		return nil, ErrSigningKeys
	}
	k, err := e.signingKindOf(key)
	if err != nil {
		e.signing.alive.Add(-1)
		return nil, err
	}
	runtime.AddCleanup(k, func(b []byte) {
		clear(b[publicKeyPart:])
		e.signing.alive.Add(-1)
	}, k.key.bytes)
	return k, nil
}

// signingKindOf makes a kind that is not counted and not wiped.
func (e *Engine) signingKindOf(key SigningKey) (*Kind, error) {
	b, err := kernels.P256Key(key.Private, key.Public)
	if err != nil {
		return nil, fmt.Errorf("gpu: %w", err)
	}
	k := *e.signatures()
	k.key = &signingKey{number: e.signing.made.Add(1), bytes: b}
	k.queue += int(k.key.number % signingQueues)
	return &k, nil
}

// signatures returns the kind of signatures by no key.
func (e *Engine) signatures() *Kind { return e.kinds[len(e.kinds)-1] }

// SigningLatency is Latency of signatures by any key.
func (e *Engine) SigningLatency() Latency {
	if !e.config.Sign {
		return Latency{}
	}
	return e.Latency(e.signatures())
}

// queues is how many a session has.
func (e *Engine) queues() int {
	if e.config.Sign {
		return len(e.kinds) - 1 + signingQueues
	}
	return len(e.kinds)
}

// bring copies a key to the device: the private part, and the public one if another's is there.
func (w *worker) bring(key *signingKey) error {
	if key == nil {
		return nil
	}
	api := w.session.api
	if w.keyOf != key.number {
		if err := api.CopyToDevice(w.key, key.bytes[:publicKeyPart], w.stream); err != nil {
			return err
		}
		w.keyOf = key.number
	}
	return api.CopyToDevice(w.key.Offset(publicKeyPart), key.bytes[publicKeyPart:], w.stream)
}

// wipeKey wipes the private part behind the launches that use it.
func (w *worker) wipeKey(key *signingKey) error {
	if key == nil {
		return nil
	}
	return w.session.api.MemsetAsync(w.key.Offset(publicKeyPart), 0, kernels.P256NumberSize, w.stream)
}
