package provider

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// newBulk returns a Bulk in memory of its own.
func newBulk(t *testing.T, p *Provider, s *ctruprime.Scheme, op BulkOperation, rows int, keys *BulkKeys) *Bulk {
	t.Helper()
	b := &Bulk{Scheme: s, Operation: op, Rows: rows, Keys: keys}
	pin := func(n int) []byte {
		m, err := p.AllocPinned(n)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := m.Free(); err != nil {
				t.Error(err)
			}
		})
		return m.Bytes
	}
	b.Input, b.Output, b.Status = pin(rows*b.InputSize()), pin(rows*b.OutputSize()), pin(4*rows)
	if keys != nil && op == BulkDecapsulate {
		b.Index = pin(4 * rows)
	}
	return b
}

// bulkRoundTrip makes keys, encapsulates to them and decapsulates, with an
// invalid key among them, and finds the same secrets on both sides.
func bulkRoundTrip(t *testing.T, p *Provider, s *ctruprime.Scheme, rows, bad int) {
	t.Helper()
	run := func(b *Bulk) {
		t.Helper()
		if err := p.RunBulk(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	keys := newBulk(t, p, s, BulkGenerateKeys, rows, nil)
	run(keys)
	enc := newBulk(t, p, s, BulkEncapsulate, rows, nil)
	for i := range rows {
		sk := row(keys.Output, keys.OutputSize(), i)
		copy(row(enc.Input, enc.InputSize(), i), s.PublicKeyOf(sk))
	}
	for i := range s.PublicKeySize() {
		row(enc.Input, enc.InputSize(), bad)[i] = 0xff
	}
	run(enc)
	dec := newBulk(t, p, s, BulkDecapsulate, rows, nil)
	seen := map[string]bool{}
	for i := range rows {
		in := row(dec.Input, dec.InputSize(), i)
		out := row(enc.Output, enc.OutputSize(), i)
		copy(in[copy(in, row(keys.Output, keys.OutputSize(), i)):], out[:s.CiphertextSize()])
		if want := map[bool]uint32{true: BulkInvalidKey}[i == bad]; enc.status(i) != want {
			t.Errorf("encapsulation %d: status %d", i, enc.status(i))
		}
		seen[string(out)] = true
	}
	if len(seen) != rows {
		t.Errorf("%d different results of %d", len(seen), rows)
	}
	run(dec)
	byKeys(t, p, s, keys, enc, dec)
	for i := range rows {
		secret := row(enc.Output, enc.OutputSize(), i)[s.CiphertextSize():]
		if i != bad && (dec.status(i) != BulkDone || !bytes.Equal(row(dec.Output, 32, i), secret)) {
			t.Errorf("decapsulation %d: status %d, or a wrong key", i, dec.status(i))
		}
	}
}

// byKeys does the decapsulations again by keys that are installed, in reverse
// order, one of them with an index that is too large.
func byKeys(t *testing.T, p *Provider, s *ctruprime.Scheme, keys, enc, dec *Bulk) {
	t.Helper()
	installed, err := p.NewBulkKeys(s, BulkDecapsulate, keys.Output)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(installed.Close(), installed.Close()); err != nil {
			t.Error(err)
		}
	}()
	again := newBulk(t, p, s, BulkDecapsulate, keys.Rows, installed)
	for i := range again.Rows {
		from := again.Rows - 1 - i
		copy(row(again.Input, again.InputSize(), i), row(enc.Output, enc.OutputSize(), from))
		binary.LittleEndian.PutUint32(row(again.Index, 4, i), uint32(from))
	}
	binary.LittleEndian.PutUint32(row(again.Index, 4, 0), uint32(keys.Rows))
	if err := p.RunBulk(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	for i := range again.Rows {
		from := again.Rows - 1 - i
		if want := map[bool]uint32{true: BulkInvalidKey}[i == 0]; again.status(i) != want {
			t.Errorf("decapsulation %d by an installed key: status %d", i, again.status(i))
		} else if i != 0 && !bytes.Equal(row(again.Output, 32, i), row(dec.Output, 32, from)) {
			t.Errorf("decapsulation %d by an installed key differs", i)
		}
	}

	one, err := p.NewBulkKeys(s, BulkEncapsulate, s.PublicKeyOf(row(keys.Output, keys.OutputSize(), 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	b := newBulk(t, p, s, BulkEncapsulate, 3, one)
	b.Seeded = true
	copy(b.Input, random(len(b.Input)))
	if err := p.RunBulk(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		ct, ss := make([]byte, s.CiphertextSize()), make([]byte, 32)
		if err := s.EncapsulateBytes(ct, ss, one.keys, row(b.Input, 32, i)); err != nil || !bytes.Equal(row(b.Output, b.OutputSize(), i), append(ct, ss...)) {
			t.Errorf("encapsulation %d to the installed key differs (%v)", i, err)
		}
	}
}

func TestBulk(t *testing.T) {
	p := openTest(t, Config{KeyPoolSize: -1, Engine: EngineCPU})
	for _, s := range sets {
		bulkRoundTrip(t, p, s, 70, 33)
	}
	s := sets[0]
	if st := operationStats(p, s, opEncapsulate); st.Served != 72 || st.PeerFaults != 1 || st.ByGPU != 0 {
		t.Errorf("%+v", st)
	}
	if st := operationStats(p, s, opDecapsulate); st.Served != 139 || st.Failures != 1 {
		t.Errorf("%+v", st)
	}
	bulkRoundTrip(t, p, s, 2*bulkPiece+5, bulkPiece) // several pieces
}

func TestBulkRefuses(t *testing.T) {
	p := openTest(t, Config{KeyPoolSize: -1, Engine: EngineCPU})
	s := sets[1]
	keys, err := p.NewBulkKeys(s, BulkDecapsulate, make([]byte, 2*s.PrivateKeySize()))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Bulk){
		"unknown parameter set":     func(b *Bulk) { b.Scheme = nil },
		"one of the BulkOperations": func(b *Bulk) { b.Operation = 3 },
		"a row at least":            func(b *Bulk) { b.Rows = 0 },
		"Input has":                 func(b *Bulk) { b.Input = b.Input[1:] },
		"Output has":                func(b *Bulk) { b.Output = nil },
		"Status has":                func(b *Bulk) { b.Status = b.Status[:4] },
		"Index has 4 bytes, want 0": func(b *Bulk) { b.Index = b.Status[:4] },
		"Keys for another":          func(b *Bulk) { b.Keys = keys },
	} {
		b := newBulk(t, p, s, BulkEncapsulate, 2, nil)
		change(b)
		if err := p.RunBulk(t.Context(), b); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want an error about %s", err, name)
		}
	}
	for _, size := range []int{0, 1, s.PrivateKeySize() + 1} {
		if _, err := p.NewBulkKeys(s, BulkDecapsulate, make([]byte, size)); err == nil {
			t.Errorf("keys of %d bytes", size)
		}
	}
	if _, err := p.NewBulkKeys(s, BulkEncapsulate, make([]byte, 2*s.PublicKeySize())); err == nil {
		t.Error("two public keys")
	}
	if _, err := p.NewBulkKeys(s, BulkGenerateKeys, make([]byte, 64)); err == nil {
		t.Error("keys to generate keys with")
	}
	if _, err := p.AllocPinned(0); err == nil {
		t.Error("no bytes")
	}
	b := newBulk(t, p, s, BulkEncapsulate, 2, nil)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := p.RunBulk(ctx, b); !errors.Is(err, cause) {
		t.Errorf("%v, want the cause", err)
	}
	p.Close()
	_, errPin := p.AllocPinned(1)
	_, errKeys := p.NewBulkKeys(s, BulkEncapsulate, make([]byte, s.PublicKeySize()))
	for _, err := range []error{p.RunBulk(t.Context(), b), errPin, errKeys} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%v, want ErrClosed", err)
		}
	}
}
