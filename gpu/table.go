package gpu

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/ctrutls/ctrutls/kernels"
)

// A Table is keys that stay on the devices for many Jobs: one public key for Encaps, or secret keys for Decaps. It may serve several
// Jobs at once.
type Table struct {
	engine *Engine
	kind   *Kind
	rows   int
	size   int    // bytes
	keys   []byte // for the devices that have not seen it yet
	closed atomic.Bool
}

// NewTable makes a table of keys, packed one after another, which it copies: one of them for Encaps, at most 524,288 for Decaps. Whether a key
// is valid shows in the status of the rows that use it.
func (e *Engine) NewTable(k *Kind, keys []byte) (*Table, error) {
	most := map[Operation]int{Encaps: 1, Decaps: kernels.MaxBatch}[k.operation]
	if most == 0 {
		return nil, fmt.Errorf("gpu: there are no tables for %v, only for Encaps and Decaps", k)
	}
	size := k.kem.set.KeySize(k.kem.operation)
	if n := len(keys) / size; len(keys)%size != 0 || n < 1 || n > most {
		return nil, fmt.Errorf("gpu: a table for %v has 1 to %d keys of %d bytes, not %d bytes", k, most, size, len(keys))
	}
	return &Table{engine: e, kind: k, rows: len(keys) / size, size: len(keys), keys: slices.Clone(keys)}, nil
}

// Rows returns the number of keys.
func (t *Table) Rows() int { return t.rows }

// Close wipes the table, here and on the devices, for each of which it may wait for the chunk that others' Jobs have there, not for their end. No Job may be
// using it. Later calls do nothing.
func (t *Table) Close() (err error) {
	if t.closed.Swap(true) {
		return nil
	}
	for _, d := range t.engine.devices {
		if s := d.session.Load(); s != nil && s.enter() {
			err = errors.Join(err, s.lane.forget(t))
			s.busy.Done()
		}
	}
	clear(t.keys)
	t.keys = nil
	return err
}
