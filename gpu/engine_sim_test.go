//go:build sim

package gpu

import (
	"bytes"
	"context"
	"errors"
	"testing"
)

// do runs a row through the engine and returns its output.
func do(ctx context.Context, e *Engine, k *Kind, input []byte) (output []byte, status uint64, err error) {
	ticket, err := e.Reserve(k, 1)
	if err != nil {
		return nil, 0, err
	}
	defer ticket.Release()
	copy(ticket.Input(0), input)
	ticket.Submit()
	if err := ticket.Wait(ctx); err != nil {
		return nil, 0, err
	}
	return bytes.Clone(ticket.Output(0)), ticket.Status(0), nil
}

func kind(t *testing.T, e *Engine, n int, op Operation) *Kind {
	t.Helper()
	k, err := e.Kind(n, op)
	check(t, err)
	return k
}

// One row of every kind gives what the CPU gives.
func TestEveryKind(t *testing.T) {
	_, cfg := simulated(t)
	cfg.Sets = nil
	e := open(t, cfg)
	g := newGenerator()
	for _, n := range []int{653, 761, 1277} {
		for _, op := range Operations() {
			input, want := g.row(t, n, op)
			got, status, err := do(t.Context(), e, kind(t, e, n, op), input)
			if err != nil || status != 0 || !bytes.Equal(got, want) {
				t.Errorf("%v of %d: status %d, %v; the output is right: %v", op, n, status, err, bytes.Equal(got, want))
			}
		}
	}
	st := e.Stats()[0]
	if st.Batches != 15 || st.Rows != 15 || st.State != StateOpen || st.LatencyP50 <= 0 || st.LatencyP99 < st.LatencyP50 {
		t.Errorf("%+v", st)
	}
	if st.Name != "ctrutls simulator 0" || st.ComputeCapability != "9.0" || st.PCIBusID != "0000:10:00.0" || st.Memory != 1<<30 || st.Since.IsZero() {
		t.Errorf("%+v", st)
	}
}

// An invalid key has its status, and so has an all-zero secret of X25519; each is its row's own, and harms nobody.
func TestInvalidRows(t *testing.T) {
	sim, cfg := simulated(t)
	const zeroSecret, invalidKey = 1 << 32, 1
	g := newGenerator()
	for op, spoil := range map[Operation]map[uint64]func(input []byte){
		Encaps: {invalidKey: func(input []byte) { copy(input, bytes.Repeat([]byte{0xff}, 100)) }},
		Decaps: {invalidKey: func(input []byte) { input[0] = 0xff }},
		ServerExchange: {
			zeroSecret:              func(input []byte) { clear(input[32:64]) },
			invalidKey:              func(input []byte) { copy(input[64:], bytes.Repeat([]byte{0xff}, 100)) },
			zeroSecret | invalidKey: func(input []byte) { clear(input[32:64]); copy(input[64:], bytes.Repeat([]byte{0xff}, 100)) },
		},
		ClientFinish: {
			zeroSecret: func(input []byte) { clear(input[32:64]) },
			invalidKey: func(input []byte) { input[64] = 0xff },
		},
	} {
		t.Run(op.String(), func(t *testing.T) {
			e := open(t, cfg)
			k := kind(t, e, 653, op)
			sim.Hold(0, true)
			running, want := g.row(t, 653, op)
			first := reserve(t, e, k, running)
			awaitRunning(t, e)
			tickets := make(map[uint64]Ticket)
			for status, f := range spoil {
				input, _ := g.row(t, 653, op)
				f(input)
				tickets[status] = reserve(t, e, k, input)
			}
			input, wantLast := g.row(t, 653, op)
			last := reserve(t, e, k, input)
			sim.Hold(0, false)
			finish(t, first, want)
			finish(t, last, wantLast)
			for want, ticket := range tickets {
				check(t, ticket.Wait(t.Context()))
				if got := ticket.Status(0); got != want {
					t.Errorf("status %#x, want %#x", got, want)
				}
				ticket.Release()
			}
		})
	}
}

// The two halves of an exchange give the same in one stream and in two, by copies and by mapped memory.
func TestExchangeModes(t *testing.T) {
	_, cfg := simulated(t)
	g := newGenerator()
	for _, cfg.OneStream = range []bool{false, true} {
		for _, cfg.CopyExchanges = range []bool{false, true} {
			e := open(t, cfg)
			for _, op := range []Operation{ServerExchange, ClientFinish} {
				input, want := g.row(t, 653, op)
				finish(t, reserve(t, e, kind(t, e, 653, op), input), want)
			}
			check(t, e.Close())
		}
	}
}

func TestNoDriver(t *testing.T) {
	if _, err := Open(Config{Library: "/no/such/libcuda.so"}); err == nil || errors.Unwrap(err) == nil {
		t.Errorf("%v", err)
	}
}
