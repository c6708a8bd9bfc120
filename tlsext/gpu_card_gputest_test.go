//go:build gputest && !sim && !nogpu

package tlsext_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ctrutls/ctrutls/kernels/sim/testkernels"
	"github.com/ctrutls/ctrutls/provider"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
	"github.com/ctrutls/ctrutls/tlsext"
)

// trapChild makes the test a process of its own, since a card is of no use to a
// process after a fault of a kernel.
const trapChild = "TLSEXT_TEST_TRAP"

// A kernel traps on this machine's card in the midst of handshakes whose server side
// the card computes: not one fails, and the CPU goes on.
func TestHandshakesThroughTrap(t *testing.T) {
	if os.Getenv(trapChild) == "" {
		child := exec.Command(os.Args[0], "-test.run=^TestHandshakesThroughTrap$", "-test.v")
		child.Env = append(os.Environ(), trapChild+"=1")
		out, err := child.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Error(err)
		}
		return
	}
	p, err := provider.Open(provider.Config{KeyPoolSize: -1, Engine: provider.EngineGPU, Logger: slog.New(slog.DiscardHandler),
		GPU: provider.GPU{Schemes: []*ctruprime.Scheme{ctruprime.Scheme761()}, Devices: []int{0}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() }) // its error is the trap
	register(t, serverByGPU{p, served})
	var done, failed atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 256 {
		wg.Go(func() {
			for !stop.Load() {
				if err := handshakeOverPipe(t.Context()); err != nil {
					failed.Add(1)
					t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	device := func() provider.DeviceStats { return p.Stats().GPU.Devices[0] }
	await(t, "the device serves", func() bool { return device().Rows > 5000 })
	before, byGPU := done.Load(), device().Rows
	if err := testkernels.Trap(0); err != nil {
		t.Fatal(err)
	}
	await(t, "the device has failed", func() bool { return device().Faults > 0 })
	await(t, "the CPU goes on", func() bool { return done.Load() > before+20_000 })
	stop.Store(true)
	wg.Wait()
	await(t, "the device is reset", func() bool { return device().Resets == 1 && device().State != "reopening" })
	d := device()
	t.Logf("%d handshakes, %d failed, %d by the device before the trap; after it: %+v", done.Load(), failed.Load(), byGPU, d)
	if needsRestart := d.State == "closed" && strings.Contains(d.LastError, "started again"); d.State != "open" && !needsRestart {
		t.Errorf("state %s, %s", d.State, d.LastError)
	}
}

// handshakeOverPipe makes one handshake with X25519CTRUPrime761 and returns what went
// wrong on either side.
func handshakeOverPipe(ctx context.Context) error {
	server, client := serverConfig(ctru761), clientConfig(ctru761)
	server.SessionTicketsDisabled = true // a pipe holds nothing: each side writes only when the other reads
	s, c := net.Pipe()
	defer s.Close()
	defer c.Close()
	ended := make(chan error, 1)
	go func() { ended <- tls.Server(s, server).HandshakeContext(context.Background()) }()
	if err := tls.Client(c, client).HandshakeContext(tlsext.WithClientShares(ctx, ctru761)); err != nil {
		return err
	}
	return <-ended
}
