package provider

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

func TestBatch(t *testing.T) {
	p := openTest(t, Config{})
	for _, s := range sets {
		const n, badKey, shortKey, badCiphertext, badSecret = 37, 5, 17, 20, 36
		sks, err := p.GenerateKeyBatch(t.Context(), s, n)
		if err != nil || len(sks) != n {
			t.Fatalf("%d keys, %v", len(sks), err)
		}
		pks := make([][]byte, n)
		for i, sk := range sks {
			pks[i] = s.PublicKeyOf(sk)
		}
		pks[badKey] = bytes.Repeat([]byte{0xff}, s.PublicKeySize())
		pks[shortKey] = pks[shortKey][1:]
		enc, err := p.EncapsulateBatch(t.Context(), s, pks)
		if err != nil {
			t.Fatal(err)
		}
		cts := make([][]byte, n)
		for i, r := range enc {
			var peer *PeerError
			if bad := i == badKey || i == shortKey; errors.As(r.Err, &peer) != bad || bad != (r.SharedKey == nil) {
				t.Errorf("%s: encapsulation %d: %v", s.Name(), i, r.Err)
			}
			cts[i] = r.Ciphertext
		}
		cts[badKey], cts[shortKey] = make([]byte, s.CiphertextSize()), make([]byte, s.CiphertextSize())
		cts[badCiphertext] = cts[badCiphertext][1:]
		sks[badSecret] = bytes.Clone(sks[badSecret])
		sks[badSecret][0] = 0xff
		dec, err := p.DecapsulateBatch(t.Context(), s, sks, cts)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range dec {
			if bad := i == badCiphertext || i == badSecret; bad != (r.Err != nil) {
				t.Errorf("%s: decapsulation %d: %v", s.Name(), i, r.Err)
			} else if !bad && i != badKey && i != shortKey && !bytes.Equal(r.SharedKey, enc[i].SharedKey) {
				t.Errorf("%s: key %d differs", s.Name(), i)
			}
		}
		if st := operationStats(p, s, opEncapsulate); st.Served != n-2 || st.PeerFaults != 2 {
			t.Errorf("%+v", st)
		}
	}
}

func TestBatchLimits(t *testing.T) {
	p := openTest(t, Config{})
	s := ctruprime.Scheme761()
	_, errMany := p.GenerateKeyBatch(t.Context(), s, MaxBatch+1)
	_, errNegative := p.GenerateKeyBatch(t.Context(), s, -1)
	_, errUneven := p.DecapsulateBatch(t.Context(), s, make([][]byte, 2), make([][]byte, 1))
	_, errScheme := p.EncapsulateBatch(t.Context(), nil, nil)
	for _, err := range []error{errMany, errNegative, errUneven, errScheme} {
		if err == nil {
			t.Error("no error")
		}
	}
	if enc, err := p.EncapsulateBatch(t.Context(), s, nil); err != nil || len(enc) != 0 {
		t.Errorf("an empty batch: %v, %v", enc, err)
	}
}

// A context that ends in the middle of a batch ends the rest of it.
func TestBatchCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, _ := openWith(t, Config{KeyPoolSize: -1}, slog.Default(), func(context.Context, []request) { cancel() })
	s := ctruprime.Scheme653()
	if sks, err := p.GenerateKeyBatch(ctx, s, 3); !errors.Is(err, context.Canceled) || sks != nil {
		t.Errorf("%v, %v; want no keys and context.Canceled", sks, err)
	}
}

func TestCut(t *testing.T) {
	a, b := ctruprime.Scheme653(), ctruprime.Scheme761()
	var batch []request
	add := func(n int, op operation, s *ctruprime.Scheme) {
		for range n {
			batch = append(batch, request{op: op, scheme: s})
		}
	}
	add(70, opGenerateKey, a)
	add(2, opGenerateKey, b)
	add(2, opEncapsulate, b)
	add(1, opGenerateKey, b)
	var got []int
	for _, piece := range cut(batch) {
		got = append(got, len(piece))
	}
	want := []int{32, 32, 6, 2, 1, 1, 1}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}
