package tickets

import (
	"encoding/binary"
	"errors"
	"time"
)

// What goes from one process to the next: when the present key's time is over, in
// Unix nanoseconds, then ids and secrets of the keys, that of the present first.
const (
	untilSize = 8
	entrySize = idSize + keySize
	// MaxExport bounds what Export returns, in bytes.
	MaxExport = untilSize + (maxPeriods+2)*entrySize
)

// Export returns the keys for another process that takes over from this one, nil
// if that can have them from where they are. The caller wipes them.
func (r *Keys) Export() ([]byte, error) {
	r.mu.Lock()
	_, random := r.source.(*local)
	r.mu.Unlock()
	if !random {
		return nil, nil
	}
	current, err := r.ring()
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, untilSize+len(current.keys)*entrySize) // whole, so that none is left behind
	b = binary.BigEndian.AppendUint64(b, uint64(current.until.UnixNano()))
	for i := range current.keys {
		b = append(append(b, current.keys[i].id[:]...), current.keys[i].secret[:]...)
	}
	return b, nil
}

var errExport = errors.New("tickets: these are no keys of another process")

// Import has r go on with the keys that another process has exported, if its own
// are random ones too. What r has sealed before does not open any more.
func (r *Keys) Import(exported []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	own, random := r.source.(*local)
	if !random || len(exported) == 0 {
		return nil
	}
	if len(exported) > MaxExport || len(exported) < untilSize+entrySize || (len(exported)-untilSize)%entrySize != 0 {
		return errExport
	}
	next := &ring{until: time.Unix(0, int64(binary.BigEndian.Uint64(exported)))}
	if most := r.now().Add(own.period); next.until.After(most) {
		next.until = most
	}
	for b := exported[untilSize:]; len(b) > 0; b = b[entrySize:] {
		var k key
		copy(k.id[:], b)
		copy(k.secret[:], b[idSize:])
		next.keys = append(next.keys, k)
	}
	r.current.Store(next)
	return nil
}
