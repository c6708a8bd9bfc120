//go:build sim || gputest

package kernels_test

import (
	"testing"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/internal/bench"
	"github.com/ctrutls/ctrutls/kernels"
)

// weave puts row i of a into wider rows at an offset, or takes it from there.
func weave(rows []byte, size, offset int, a []byte, width int, out bool) {
	for i := 0; i*width < len(a); i++ {
		wide, narrow := rows[i*size+offset:][:width], a[i*width:][:width]
		if out {
			wide, narrow = narrow, wide
		}
		copy(wide, narrow)
	}
}

// checkExchange runs an exchange for each of the cases and compares both halves with the CPU's. Some of the keys are invalid.
func checkExchange(t *testing.T, card *bench.Card, stream driver.Stream, set *kernels.Set, x kernels.Exchange, cases []x25519Case, seed uint64, o kernels.ExchangeOptions) {
	t.Helper()
	op, curve, public := kernels.Encaps, kernels.X25519Pair, kernels.X25519Size
	if x == kernels.ClientFinish {
		op, curve, public = kernels.Decaps, kernels.X25519Shared, 0
	}
	n, front, secret := len(cases), 2*kernels.X25519Size, public+kernels.X25519Size
	kem, err := bench.NewCase(set, op, n, bench.CaseOptions{Invalid: true}, seed)
	try(t, err)
	var plan kernels.Plan
	try(t, set.PlanExchange(&plan, x, n, card.Device(), o))

	in, out := set.ExchangeInputSize(x), set.ExchangeOutputSize(x)
	input, points := make([]byte, n*in), []byte{}
	for i := range cases {
		points = append(append(points, cases[i].private[:]...), cases[i].peer[:]...)
	}
	weave(input, in, 0, points, front, false)
	weave(input, in, front, kem.Input, set.InputSize(op, false), false)

	var buffers bench.Buffers
	for buffer, size := range map[kernels.Buffer]int{kernels.Input: plan.InputSize, kernels.Output: plan.OutputSize, kernels.Status: plan.StatusSize,
		kernels.Scratch: plan.ScratchSize} {
		if size > 0 {
			buffers[buffer], err = card.API.MemAlloc(size)
			try(t, err)
		}
	}
	// What lies between rows is copied too, and is nobody's to write.
	const pattern = 0xa5
	try(t, card.API.MemsetAsync(buffers[kernels.Output], pattern, plan.OutputSize, stream))
	try(t, card.API.CopyToDevice(buffers[kernels.Input], input, stream))
	try(t, card.Run(&plan, &buffers, stream))
	output, status := make([]byte, plan.OutputSize), make([]byte, plan.StatusSize)
	try(t, card.API.CopyToHost(output, buffers[kernels.Output], stream))
	try(t, card.API.CopyToHost(status, buffers[kernels.Status], stream))
	try(t, card.API.StreamSynchronize(stream))
	for _, p := range buffers {
		if p != 0 {
			try(t, card.API.MemFree(p))
		}
	}

	secrets := make([]byte, n*secret)
	weave(output, out, 0, secrets, secret, true)
	checkX25519Rows(t, kernels.X25519Plan{Operation: curve, Batch: n, Shape: o.X25519}, cases, expectX25519(t, cases), secrets, status[4*n:])
	rest := make([]byte, n*set.OutputSize(op))
	weave(output, out, secret, rest, set.OutputSize(op), true)
	if err := kem.Check(rest, status[:4*n]); err != nil {
		t.Errorf("%s of %d: %v", x, n, err)
	}
	for i := range n {
		for _, b := range output[i*out+secret+set.OutputSize(op) : (i+1)*out] {
			if b != pattern {
				t.Fatalf("%s of %d: row %d's padding was written to", x, n, i)
			}
		}
	}
}
