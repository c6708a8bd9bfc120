package ctruprime

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"
)

// contents returns what each field of a struct holds, by name: the memory behind
// its pointers and slices, these up to their capacity.
func contents(t *testing.T, of any) map[string][]byte {
	v := reflect.ValueOf(of).Elem()
	all := map[string][]byte{}
	for i := range v.NumField() {
		all[v.Type().Field(i).Name] = appendContents(t, nil, v.Field(i))
	}
	return all
}

func appendContents(t *testing.T, to []byte, v reflect.Value) []byte {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return append(to, 1)
		}
		return append(to, 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return binary.LittleEndian.AppendUint64(to, uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return binary.LittleEndian.AppendUint64(to, v.Uint())
	case reflect.Pointer:
		if v.IsNil() {
			return to
		}
		return appendContents(t, to, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			to = appendContents(t, to, v.Field(i))
		}
		return to
	case reflect.Slice:
		v = v.Slice(0, v.Cap())
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			to = appendContents(t, to, v.Index(i))
		}
		return to
	}
	t.Fatalf("scratch memory holds a %s", v.Type())
	return nil
}

// A scratch is scratch memory that a test uses.
type scratch struct {
	name   string
	memory interface{ wipe() }
	fresh  map[string][]byte
}

// used records which fields are no longer as they were.
func (x *scratch) used(t *testing.T, fields map[string]bool) {
	for name, now := range contents(t, x.memory) {
		full := x.name + "." + name
		fields[full] = fields[full] || !bytes.Equal(now, x.fresh[name])
	}
}

// TestScratchIsWiped uses scratch memory in every operation and wipes it: every
// field must then be as it was at first. Each must have been used at some level,
// so that this shows something.
func TestScratchIsWiped(t *testing.T) {
	r := newRandom(t)
	fields := map[string]bool{}
	// What holds no secret, and lowG, which is zero at the end of a division.
	unused := map[string]bool{"workspace.public": true, "workspace.room": true, "division.jumps": true, "division.lowG": true}
	if bestLevel() == Portable {
		for _, name := range []string{"workspace.lanes", "workspace.words", "workspace.tail", "keyGroup.lanes", "keyGroup.coins", "division.vector"} {
			unused[name] = true // of vector code
		}
	}
	forEachLevel(t, func(t *testing.T, s, plain *Scheme) {
		packed, key := r.newKey(t, s)
		f, pk := key.f, key.public
		w, d, k := newWorkspace(&s.parameters), newDivision(&s.parameters), newKeyGroup(&s.parameters)
		// A hash differs from its zero value once it has been used.
		w.expand(nil, nil)
		w.shake.Reset()
		all := []*scratch{{"workspace", w, nil}, {"division", d, nil}, {"keyGroup", k, nil}}
		for _, x := range all {
			x.fresh = contents(t, x.memory)
		}
		sks, seeds := make([][]byte, MaxKeyGroup), make([][]byte, MaxKeyGroup)
		for i := range sks {
			sks[i], seeds[i] = make([]byte, s.PrivateKeySize()), r.bytes(KeySeedSize)
			copy(k.rejections[i][:], seeds[i][SeedSize:]) // as generateKeys does
		}
		seed, ct, ss := r.bytes(EncapsulationSeedSize), make([]byte, s.CiphertextSize()), make([]byte, SharedKeySize)
		copy(w.seed[:], seed)                     // as Encapsulate does
		copy(w.rejection[:], seeds[0][SeedSize:]) // as generateKey does
		for i, operation := range []func(){
			func() { s.encapsulate(ct, ss, pk.packed, pk.h, w.seed[:], w) },
			func() { s.decapsulate(ss, pk.packed, s.rejectionOf(packed), f, pk.h, ct, w) },
			func() { s.generate(sks[0], seeds[0][:SeedSize], w, d) },
			func() { s.generateGroup(sks, seeds, w, d, k) },
		} {
			operation()
			for _, x := range all[:min(i, len(all)-1)+1] {
				x.used(t, fields)
			}
		}
		if d.vector == nil {
			d.lowG[0] = 1
		}
		for _, x := range all {
			x.memory.wipe()
			for name, now := range contents(t, x.memory) {
				if !bytes.Equal(now, x.fresh[name]) {
					t.Errorf("%s.%s is not wiped", x.name, name)
				}
			}
		}
	})
	for name, used := range fields {
		if !used && !unused[name] {
			t.Errorf("%s: no operation has used it", name)
		}
	}
}
