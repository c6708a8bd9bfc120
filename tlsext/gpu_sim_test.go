//go:build sim && !nogpu

package tlsext_test

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
	"github.com/ctrutls/ctrutls/provider"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
	"github.com/ctrutls/ctrutls/tlsext"
)

func init() {
	// What the kernels do with memory is checked by their own tests; here it would only take time.
	os.Setenv("CTRUTLS_SIM_CHECKS", "global")
}

// registerGPU puts a provider that is pinned to the simulated GPU in servers'
// place, and checks in the end that nothing is left on the device.
func registerGPU(t *testing.T, cfg provider.GPU) (*simctl.Sim, *provider.Provider) {
	t.Helper()
	sim, path, err := simctl.Fresh(simctl.Library())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Library, cfg.Workers, cfg.Hang, cfg.Backoff = path, 1, time.Hour, time.Millisecond
	cfg.Schemes = []*ctruprime.Scheme{ctruprime.Scheme761()}
	p, err := provider.Open(provider.Config{KeyPoolSize: -1, Engine: provider.EngineGPU, GPU: cfg, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		if st := sim.Stats(0); st.Leaks() {
			t.Errorf("left behind: %+v", st)
		}
	})
	register(t, serverByGPU{p, served})
	return sim, p
}

// handshakes runs n handshakes at once over pipes, all of which must succeed, and
// calls during meanwhile.
func handshakes(t *testing.T, n int, during func()) {
	t.Helper()
	server, client := serverConfig(ctru761), clientConfig(ctru761)
	server.SessionTicketsDisabled = true                    // a pipe holds nothing: each side writes only when the other reads
	shares := tlsext.WithClientShares(t.Context(), ctru761) // one key share is enough here
	var wg sync.WaitGroup
	for range n {
		s, c := net.Pipe()
		wg.Go(func() {
			defer s.Close()
			conn := tls.Server(s, server)
			if err := conn.HandshakeContext(context.Background()); err != nil {
				t.Error("server: ", err)
			} else if id := conn.ConnectionState().CurveID; id != ctru761 {
				t.Errorf("server: negotiated %v", id)
			}
		})
		wg.Go(func() {
			defer c.Close()
			if err := tls.Client(c, client).HandshakeContext(shares); err != nil {
				t.Error("client: ", err)
			}
		})
	}
	during()
	wg.Wait()
}

// Thousands of handshakes that wait for a device share a few large batches; one
// alone has a batch of its own.
func TestManyHandshakesFewBatches(t *testing.T) {
	const many = 4096
	sim, p := registerGPU(t, provider.GPU{Capacity: many, MaxWait: time.Hour})
	device := func() provider.DeviceStats { return p.Stats().GPU.Devices[0] }
	handshakes(t, 1, func() {})
	alone := device()
	if alone.Batches != 1 || alone.Rows != 1 {
		t.Errorf("one alone: %d operations in %d batches", alone.Rows, alone.Batches)
	}
	sim.Hold(0, true)
	handshakes(t, many, func() {
		await(t, "all handshakes are in flight", func() bool { return device().InFlight == many })
		sim.Hold(0, false)
	})
	if st := device(); st.Rows-alone.Rows != many || st.Batches-alone.Batches > 2 {
		t.Errorf("%d operations in %d batches", st.Rows-alone.Rows, st.Batches-alone.Batches)
	}
}

// Shares that are none get the alerts that they get from the CPU when it is a device
// that looks at them, on either side, and the next handshake is fine.
func TestMalformedSharesByGPU(t *testing.T) {
	_, p := registerGPU(t, provider.GPU{MaxWait: time.Hour, CheckEvery: -1})
	register(t, p) // for clients too
	for _, tc := range malformedShares() {
		if !strings.HasPrefix(tc.name, "low order") {
			continue // refused before a device sees it
		}
		t.Run("server, "+tc.name, func(t *testing.T) { refusedByServer(t, ctru761, tc.f) })
		t.Run("client, "+tc.name, func(t *testing.T) { refusedByClient(t, ctru761, false, tc.f) })
	}
	t.Run("coefficient q", func(t *testing.T) {
		refusedByServer(t, ctru761, func(b []byte) []byte { setCoefficient(b, rand.IntN(761), 4591); return b })
	})
	(&handshake{server: serverConfig(ctru761), client: clientConfig(ctru761)}).succeeds(t, ctru761, false)
	for _, op := range p.Stats().Operations {
		want := map[string]uint64{"server-exchange": uint64(len(lowOrderPoints)) + 1, "client-finish": uint64(len(lowOrderPoints))}[op.Operation]
		if op.Scheme == "CTRU-Prime-761" && (op.PeerFaults != want || op.ByGPU != op.Served || op.Failures != 0) {
			t.Errorf("%+v, want %d faults of peers", op, want)
		}
	}
	if st := p.Stats().GPU; st.Mismatches != 0 || st.Devices[0].State != "open" {
		t.Errorf("%+v", st)
	}
}

// Whatever happens to the device under load, no handshake fails.
func TestHandshakesThroughFaults(t *testing.T) {
	for name, c := range map[string]struct {
		inject func(*simctl.Sim)
		state  string
	}{
		"a call fails":    {func(sim *simctl.Sim) { sim.FailCall(0, "cuEventRecord", 2, 1, int(driver.ErrInvalidValue), false) }, "open"},
		"a kernel faults": {func(sim *simctl.Sim) { sim.FaultLaunch(0, 2, 1, int(driver.ErrIllegalAddress)) }, "open"},
		"a kernel faults, as on a card": {func(sim *simctl.Sim) {
			sim.SetFaultsPermanent(0, true)
			sim.FaultLaunch(0, 2, 1, int(driver.ErrIllegalAddress))
		}, "closed"},
		"the device is lost": {func(sim *simctl.Sim) { sim.Lose(0, int(driver.ErrDeviceUnavailable)) }, "reopening"},
	} {
		t.Run(name, func(t *testing.T) {
			sim, p := registerGPU(t, provider.GPU{MaxWait: time.Hour})
			c.inject(sim)
			for range 4 { // batches at least, one after the other
				handshakes(t, 16, func() {})
			}
			await(t, "the device is "+c.state, func() bool { d := p.Stats().GPU.Devices[0]; return d.Faults > 0 && d.State == c.state })
		})
	}
}

// A handshake whose context ends while its batch runs is gone at once; the others
// go on.
func TestHandshakeCancelledInBatch(t *testing.T) {
	sim, p := registerGPU(t, provider.GPU{MaxWait: time.Hour})
	sim.Hold(0, true)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	s, c := net.Pipe()
	defer c.Close()
	failed := make(chan error)
	go func() {
		defer s.Close()
		failed <- tls.Server(s, serverConfig(ctru761)).HandshakeContext(ctx)
	}()
	go tls.Client(c, clientConfig(ctru761)).HandshakeContext(t.Context())
	handshakes(t, 8, func() {
		await(t, "all are in flight", func() bool { return p.Stats().GPU.Devices[0].InFlight == 9 })
		cancel(cause)
		if err := <-failed; err == nil {
			t.Error("a handshake without a context succeeded")
		}
		sim.Hold(0, false)
	})
}

// A provider that is closed while handshakes are in flight on its device lets all of
// them succeed first.
func TestHandshakesThroughClose(t *testing.T) {
	const many = 8
	sim, p := registerGPU(t, provider.GPU{MaxWait: time.Hour})
	ended, end := context.WithCancel(t.Context())
	end()
	closed := make(chan error, 1)
	sim.Hold(0, true)
	handshakes(t, many, func() {
		await(t, "all are in flight", func() bool { return p.Stats().GPU.Devices[0].InFlight == many })
		go func() { closed <- p.Close() }()
		await(t, "the provider refuses calls", func() bool {
			_, err := p.GenerateKey(ended, ctruprime.Scheme761())
			return errors.Is(err, provider.ErrClosed)
		})
		select {
		case <-closed:
			t.Error("closed before the handshakes are done")
		default:
		}
		sim.Hold(0, false)
	})
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
