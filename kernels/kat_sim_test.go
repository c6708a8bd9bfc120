//go:build sim

package kernels_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/ctrutls/ctrutls/internal/bench"
	"github.com/ctrutls/ctrutls/kernels"
)

// hexBytes reads a string of hexadecimal digits.
type hexBytes []byte

func (h *hexBytes) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

// vector is one of the scheme's known answers.
type vector struct {
	Seed        hexBytes `json:"seed"`
	Z           hexBytes `json:"z"`
	EncSeed     hexBytes `json:"encseed"`
	PublicKey   hexBytes `json:"pk"`
	SecretKey   hexBytes `json:"sk"`
	Ciphertext  hexBytes `json:"ct"`
	Key         hexBytes `json:"key"`
	Tampered    hexBytes `json:"bad_ct"`
	RejectedKey hexBytes `json:"rejected_key"`
}

// Every set, operation, multiplication and shape gives the known answers.
func TestKnownAnswers(t *testing.T) {
	text, err := os.ReadFile("../provider/ctruprime/testdata/kats.json")
	check(t, err)
	var all map[string][]vector
	check(t, json.Unmarshal(text, &all))
	for _, n := range sets {
		vectors := all[fmt.Sprintf("CTRU-Prime-%d", n)]
		if len(vectors) == 0 {
			t.Fatalf("no vectors for CTRU-Prime-%d", n)
		}
		inputs, outputs := make(map[kernels.Operation][]byte), make(map[kernels.Operation][]byte)
		for _, v := range vectors {
			for op, in := range map[kernels.Operation][]byte{
				kernels.KeyGen: slices.Concat(v.Seed, v.Z),
				kernels.Encaps: slices.Concat(v.PublicKey, v.EncSeed),
				kernels.Decaps: slices.Concat(v.SecretKey, v.Ciphertext, v.SecretKey, v.Tampered),
			} {
				inputs[op] = append(inputs[op], in...)
			}
			for op, out := range map[kernels.Operation][]byte{
				kernels.KeyGen: v.SecretKey,
				kernels.Encaps: slices.Concat(v.Ciphertext, v.Key),
				kernels.Decaps: slices.Concat(v.Key, v.RejectedKey),
			} {
				outputs[op] = append(outputs[op], out...)
			}
		}
		for _, op := range kernels.Operations() {
			for _, m := range kernels.Multiplications() {
				for _, shape := range shapes(op, m) {
					t.Run(fmt.Sprintf("%d/%s/%s/%s", n, op, m, shape), func(t *testing.T) {
						card, stream, _ := simulator(t)
						c := bench.GivenCase(newSet(t, n), op, inputs[op], outputs[op])
						check(t, card.RunCase(c, kernels.Options{Multiplication: m, Shape: shape}, stream, true))
					})
				}
			}
		}
	}
}
