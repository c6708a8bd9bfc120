//go:build sim

package gpu

import (
	"bytes"
	"context"
	"errors"
	"testing"
)

// do runs a row through the engine and returns its output.
func do(ctx context.Context, e *Engine, k *Kind, input []byte) (output []byte, status uint32, err error) {
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
		for _, op := range []Operation{Encaps, Decaps, KeyGen} {
			input, want := g.row(t, n, op)
			got, status, err := do(t.Context(), e, kind(t, e, n, op), input)
			if err != nil || status != 0 || !bytes.Equal(got, want) {
				t.Errorf("%v of %d: status %d, %v; the output is right: %v", op, n, status, err, bytes.Equal(got, want))
			}
		}
	}
	st := e.Stats()[0]
	if st.Batches != 9 || st.Rows != 9 || st.State != StateOpen || st.LatencyP50 <= 0 || st.LatencyP99 < st.LatencyP50 {
		t.Errorf("%+v", st)
	}
	if st.Name != "ctrutls simulator 0" || st.ComputeCapability != "9.0" || st.PCIBusID != "0000:10:00.0" || st.Memory != 1<<30 || st.Since.IsZero() {
		t.Errorf("%+v", st)
	}
}

// An invalid key has its status, and harms nobody.
func TestInvalidRow(t *testing.T) {
	_, cfg := simulated(t)
	e := open(t, cfg)
	k := kind(t, e, 653, Encaps)
	bad := bytes.Repeat([]byte{0xff}, k.InputSize())
	if _, status, err := do(t.Context(), e, k, bad); err != nil || status != 1 {
		t.Errorf("status %d, %v", status, err)
	}
}

func TestNoDriver(t *testing.T) {
	if _, err := Open(Config{Library: "/no/such/libcuda.so"}); err == nil || errors.Unwrap(err) == nil {
		t.Errorf("%v", err)
	}
}
