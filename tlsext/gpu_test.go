//go:build (sim || gputest) && !nogpu

package tlsext_test

import (
	"context"
	"crypto/ecdh"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/provider"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// serverByGPU is a GPU's provider for servers and the CPU's for clients, so that
// a closed gate holds servers alone.
type serverByGPU struct{ gpu, cpu *provider.Provider }

func (e serverByGPU) GenerateKey(ctx context.Context, s *ctruprime.Scheme) ([]byte, error) {
	return e.cpu.GenerateKey(ctx, s)
}

func (e serverByGPU) ServerExchange(ctx context.Context, s *ctruprime.Scheme, share []byte) ([]byte, []byte, error) {
	return e.gpu.ServerExchange(ctx, s, share)
}

func (e serverByGPU) ClientFinish(ctx context.Context, s *ctruprime.Scheme, x *ecdh.PrivateKey, sk, share []byte) ([]byte, error) {
	return e.cpu.ClientFinish(ctx, s, x, sk, share)
}

func await(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for until := time.Now().Add(5 * time.Minute); !happened(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(until) {
			t.Fatal("waited in vain: " + what)
		}
	}
}
