package ctruprime

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestBatchEqualsSingle generates groups of every interesting size and each of
// their keys alone.
func TestBatchEqualsSingle(t *testing.T) {
	r := newRandom(t)
	forEachScheme(t, func(t *testing.T, s *Scheme, _ *reference) {
		const most = MaxKeyGroup + 1
		var singles, seeds [most][]byte
		for i := range singles {
			singles[i], seeds[i] = make([]byte, s.PrivateKeySize()), r.bytes(KeySeedSize)
			if err := s.GenerateKeyBytes(singles[i], seeds[i]); err != nil {
				t.Fatal(err)
			}
		}
		for _, count := range []int{0, 1, 2, MaxKeyGroup - 1, MaxKeyGroup, most} {
			sks := make([][]byte, count)
			for i := range sks {
				sks[i] = make([]byte, s.PrivateKeySize())
			}
			if err := s.GenerateKeysBytes(sks, seeds[:count]); err != nil {
				t.Fatal(err)
			}
			for i := range sks {
				if !bytes.Equal(sks[i], singles[i]) {
					t.Fatalf("key %d of %d, seed %x: got %x, want %x", i, count, seeds[i], sks[i], singles[i])
				}
			}
		}
	})
}

// TestBatchErrors checks that no key is written if any argument is wrong.
func TestBatchErrors(t *testing.T) {
	s := scheme761
	key := func() []byte { return make([]byte, s.PrivateKeySize()) }
	seed := make([]byte, KeySeedSize)
	for what, c := range map[string]struct {
		sks, seeds [][]byte
		want       error
	}{
		"fewer seeds": {[][]byte{key(), key()}, [][]byte{seed}, nil},
		"fewer keys":  {[][]byte{key()}, [][]byte{seed, seed}, nil},
		"short key":   {[][]byte{key(), key()[1:]}, [][]byte{seed, seed}, ErrPrivateKeySize},
		"short seed":  {[][]byte{key(), key()}, [][]byte{seed, seed[1:]}, ErrSeedSize},
	} {
		err := s.GenerateKeysBytes(c.sks, c.seeds)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.HasPrefix(err.Error(), "ctruprime: ") {
			t.Errorf("%s: error %v", what, err)
		}
		if !allZero(c.sks[0]) {
			t.Errorf("%s: a key was written", what)
		}
	}
}
