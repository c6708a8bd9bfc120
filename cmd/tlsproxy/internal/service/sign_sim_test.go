//go:build sim && !nogpu

package service

import (
	"context"
	"crypto/tls"
	"log/slog"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

// TestSignOnSimulatedGPU has the certificate's key sign on a GPU: the first
// handshake makes the GPU know it.
func TestSignOnSimulatedGPU(t *testing.T) {
	t.Setenv("CTRUTLS_SIM_CHECKS", "global")
	library, err := simctl.Library()
	if err != nil {
		t.Fatal(err)
	}
	s, err := plan(t, func(c *config.Config) {
		c.Provider.Engine = config.EngineGPU
		c.Provider.GPU.Library, c.Provider.GPU.Sign = library, true
		c.Provider.GPU.MaxWait, c.Provider.GPU.Hang = config.Duration(time.Minute), config.Duration(5*time.Minute)
	}).Start(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx, nil) }()
	for until := time.Now().Add(time.Minute); s.KeyExchanges().Signatures.ByGPU < 3; {
		if time.Now().After(until) {
			t.Fatal("the GPU signs nothing")
		}
		c, err := tls.Dial("tcp", s.Addresses()[0].String(), &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519}})
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	s.documented(t, "tlsproxy_gpu_info", "tlsproxy_gpu_state", "tlsproxy_gpu_batch_size", "tlsproxy_gpu_batch_duration_seconds", "tlsproxy_gpu_operations_in_flight",
		"tlsproxy_gpu_fallbacks_total", "tlsproxy_gpu_memory_bytes")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if st := s.KeyExchanges(); st.Signatures.Failures != 0 || st.GPU.Mismatches != 0 {
		t.Errorf("%+v, %+v", st.Signatures, st.GPU)
	}
}
