package bench

import (
	"errors"
	"fmt"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels"
)

// RunCase runs a case on the card in stream s and compares the results. If wiped, it also checks that the launches left nothing
// in their scratch memory, which is then zero at first; if not, it is not initialised, so that a checking device reports what
// reads it too early.
func (c *Card) RunCase(k *Case, o kernels.Options, s driver.Stream, wiped bool) (err error) {
	o.Table = len(k.Table) / k.Set.KeySize(k.Operation)
	b, err := c.NewBatch(k.Set, k.Operation, k.N, o, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Free()) }()
	output, status := make([]byte, b.Plan.OutputSize), make([]byte, b.Plan.StatusSize)
	var scratch []byte
	if wiped && b.Plan.ScratchSize > 0 {
		scratch = make([]byte, b.Plan.ScratchSize)
		if err := c.API.MemsetAsync(b.Buffers[kernels.Scratch], 0, b.Plan.ScratchSize, s); err != nil {
			return err
		}
	}
	for _, in := range []struct {
		to   kernels.Buffer
		data []byte
	}{{kernels.Input, k.Input}, {kernels.Table, k.Table}, {kernels.Index, k.Index}} {
		if len(in.data) == 0 {
			continue
		}
		if err := c.API.CopyToDevice(b.Buffers[in.to], in.data, s); err != nil {
			return err
		}
	}
	if err := b.Run(s); err != nil {
		return err
	}
	for _, out := range []struct {
		from kernels.Buffer
		data []byte
	}{{kernels.Output, output}, {kernels.Status, status}, {kernels.Scratch, scratch}} {
		if len(out.data) == 0 {
			continue
		}
		if err := c.API.CopyToHost(out.data, b.Buffers[out.from], s); err != nil {
			return err
		}
	}
	if err := c.API.StreamSynchronize(s); err != nil {
		return fmt.Errorf("bench: %s of %d by %s, shape %s: %w", k.Operation, k.N, b.Plan.Multiplication, b.Plan.Shape, err)
	}
	if err := k.Check(output, status); err != nil {
		return fmt.Errorf("multiplication %s, shape %s: %w", b.Plan.Multiplication, b.Plan.Shape, err)
	}
	for i, v := range scratch {
		// The dummies that fill up a group of keys leave rows that hold 1, which is no secret.
		if v != 0 && !(k.Operation == kernels.KeyGen && v == 1) {
			return fmt.Errorf("bench: %s, multiplication %s, shape %s: byte %d of the scratch memory is not wiped", k.Operation, b.Plan.Multiplication, b.Plan.Shape, i)
		}
	}
	return nil
}
