package ctruprime

import (
	"bytes"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"testing"
)

//go:embed testdata/kats.json
var katFile []byte

// hexBytes is a byte string in hexadecimal in a JSON file.
type hexBytes []byte

func (h *hexBytes) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	b, err := hex.DecodeString(text)
	*h = b
	return err
}

// vector is one known answer.
type vector struct {
	Seed        hexBytes `json:"seed"`
	Z           hexBytes `json:"z"`
	EncSeed     hexBytes `json:"encseed"`
	PK          hexBytes `json:"pk"`
	SK          hexBytes `json:"sk"`
	CT          hexBytes `json:"ct"`
	Key         hexBytes `json:"key"`
	BadCT       hexBytes `json:"bad_ct"`
	RejectedKey hexBytes `json:"rejected_key"`
}

// check runs everything that the vector has an answer for.
func (v *vector) check(t *testing.T, s *Scheme) {
	t.Helper()
	equal := func(what string, got, want []byte) {
		t.Helper()
		if !bytes.Equal(got, want) {
			t.Errorf("%s: got %x, want %x", what, got, want)
		}
	}
	sk := make([]byte, s.PrivateKeySize())
	if err := s.GenerateKeyBytes(sk, append(bytes.Clone(v.Seed), v.Z...)); err != nil {
		t.Fatal(err)
	}
	equal("private key", sk, v.SK)
	equal("public key", s.PublicKeyOf(sk), v.PK)

	ct, ss := make([]byte, s.CiphertextSize()), make([]byte, SharedKeySize)
	if err := s.EncapsulateBytes(ct, ss, v.PK, v.EncSeed); err != nil {
		t.Fatal(err)
	}
	equal("ciphertext", ct, v.CT)
	equal("encapsulated key", ss, v.Key)

	for _, d := range []struct {
		what    string
		ct, key []byte
	}{{"decapsulated key", v.CT, v.Key}, {"rejected key", v.BadCT, v.RejectedKey}} {
		if err := s.DecapsulateBytes(ss, v.SK, d.ct); err != nil {
			t.Fatal(err)
		}
		equal(d.what, ss, d.key)
	}
}

// TestKnownAnswers replays every vector of testdata/kats.json, which
// testdata/ctruprime.py made.
func TestKnownAnswers(t *testing.T) {
	var file map[string][]vector
	if err := json.Unmarshal(katFile, &file); err != nil {
		t.Fatal(err)
	}
	if len(file) != len(allSchemes) {
		t.Fatalf("vectors for %d sets, want %d", len(file), len(allSchemes))
	}
	for _, s := range allSchemes {
		t.Run(s.Name(), func(t *testing.T) {
			vectors := file[s.Name()]
			if len(vectors) == 0 {
				t.Fatal("no vectors")
			}
			for i := range vectors {
				vectors[i].check(t, s)
			}
		})
	}
}
