package kernels_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/kernels"
)

// h200 is the card on which the shapes' bounds were found.
var h200 = kernels.Device{Multiprocessors: 132}

// Small batches get more lanes an operation, and no batch is so odd that operations are left out.
func TestPlanX25519(t *testing.T) {
	last := kernels.X25519DefaultShape
	for _, n := range []int{1, 64, 1000, 2000, 6000, 20000, kernels.MaxBatch} {
		p, err := kernels.PlanX25519(kernels.X25519Pair, n, h200, kernels.X25519DefaultShape)
		if err != nil {
			t.Fatal(err)
		}
		if p.Shape < last {
			t.Errorf("%d operations have shape %s, fewer had %s", n, p.Shape, last)
		}
		last = p.Shape
		if p.InputSize != 64*n || p.OutputSize != 64*n || p.StatusSize != 4*n {
			t.Errorf("%d operations: rows of %d, %d and %d bytes", n, p.InputSize, p.OutputSize, p.StatusSize)
		}
	}
	if last != kernels.X25519Thread {
		t.Errorf("the largest batch has shape %s", last)
	}
}

func TestPlansRefuse(t *testing.T) {
	x25519 := func(op kernels.X25519Operation, n int, dev kernels.Device, shape kernels.X25519Shape) error {
		_, err := kernels.PlanX25519(op, n, dev, shape)
		return err
	}
	p256 := func(n int, dev kernels.Device, shape kernels.P256Shape) error {
		_, err := kernels.PlanP256(n, dev, shape)
		return err
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"none":            {x25519(kernels.X25519Pair, 0, h200, 0), "1 to 524288 operations, not 0"},
		"too many":        {x25519(kernels.X25519Pair, kernels.MaxBatch+1, h200, 0), "not 524289"},
		"no device":       {x25519(kernels.X25519Pair, 1, kernels.Device{}, 0), "multiprocessor"},
		"no operation":    {x25519(7, 1, h200, 0), "X25519Operation(7)"},
		"no shape":        {x25519(kernels.X25519Public, 1, h200, 9), "X25519Shape(9)"},
		"no signatures":   {p256(-1, h200, 0), "not -1"},
		"no P-256 device": {p256(1, kernels.Device{}, 0), "multiprocessor"},
		"no P-256 shape":  {p256(1, h200, 5), "P256Shape(5)"},
		"no curve":        {func() error { _, err := kernels.Module{Curve: 9}.PTX(); return err }(), "Curve(9)"},
		"short private":   {func() error { _, err := kernels.P256Key(make([]byte, 31), make([]byte, 65)); return err }(), "32 bytes, not 31"},
		"compressed": {func() error {
			_, err := kernels.P256Key(make([]byte, 32), append([]byte{2}, make([]byte, 32)...))
			return err
		}(), "uncompressed"},
		"not on the curve": {func() error {
			_, err := kernels.P256Key(make([]byte, 32), append([]byte{4}, make([]byte, 64)...))
			return err
		}(), "not on P-256"},
	} {
		if c.err == nil || !strings.HasPrefix(c.err.Error(), "kernels: ") || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, c.err, c.want)
		}
	}
}

func TestP256KeySize(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	d, err := private.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	public, err := private.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	key, err := kernels.P256Key(d, public)
	if err != nil {
		t.Fatal(err)
	}
	if len(key) != kernels.P256KeySize || string(key[len(key)-len(d):]) != string(d) {
		t.Errorf("%d bytes, want %d, the private key at their end", len(key), kernels.P256KeySize)
	}
}
