//go:build sim && !nogpu

package provider

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/gpu"
	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

func init() {
	// What the kernels do with memory is checked by their own tests; here it would only take time.
	os.Setenv("CTRUTLS_SIM_CHECKS", "global")
}

// simulated returns the simulator, as it is when loaded, and a configuration of
// the GPU engine on it with one parameter set, without checks and without a bound
// that a test could reach. When the test ends, nothing must be left on it.
func simulated(t *testing.T) (*simctl.Sim, Config) {
	t.Helper()
	sim, path, err := simctl.Fresh(simctl.Library())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if st := sim.Stats(0); st.Leaks() {
			t.Errorf("left behind: %+v", st)
		}
	})
	return sim, Config{KeyPoolSize: -1, Engine: EngineGPU, Logger: slog.New(slog.DiscardHandler), GPU: GPU{
		Library: path, Schemes: sets[:1], Workers: 1, Capacity: 64, MaxWait: time.Hour, Hang: time.Hour, Backoff: time.Millisecond, CheckEvery: -1}}
}

// Whatever the engine, the same request has the same result.
func TestGPUEqualsCPU(t *testing.T) {
	_, cfg := simulated(t)
	cfg.GPU.Schemes = nil
	p := openTest(t, cfg)
	e := p.engine.(*gpuEngine)
	cpu := &cpuEngine{log: slog.Default()}
	routed := newRouter(&cpuEngine{log: slog.Default()}, e)
	routed.onCPU.Store(100) // a load at which it chooses the GPU
	for _, s := range sets {
		for op := range operations {
			mine, want := requestFor(t, s, op), request{}
			want = mine
			want.out = make([]byte, len(mine.out))
			cpuBatch := []request{want}
			cpu.serve(t.Context(), cpuBatch)
			settle(routed, routed.route(&mine))
			for _, e := range []engine{e, routed} {
				batch := []request{mine}
				clear(mine.out)
				e.serve(t.Context(), batch)
				if batch[0].err != nil || cpuBatch[0].err != nil || !batch[0].device || !bytes.Equal(batch[0].out, want.out) {
					t.Errorf("%s of %s: %s: %v, %v; made by a device: %v; equal: %v", op, s.Name(), e.name(), batch[0].err, cpuBatch[0].err, batch[0].device,
						bytes.Equal(batch[0].out, want.out))
				}
			}
		}
	}
	if st := p.Stats(); st.Engine != EngineGPU || st.GPU.Served != 30 || st.GPU.Devices[0].State != "open" || st.GPU.Devices[0].Rows != 30 {
		t.Errorf("%+v", st.GPU)
	}
}

// requestFor returns a random request.
func requestFor(t *testing.T, s *ctruprime.Scheme, op operation) request {
	t.Helper()
	r := request{op: op, scheme: s, out: make([]byte, outSize(op, s))}
	sk := make([]byte, s.PrivateKeySize())
	if err := s.GenerateKeyBytes(sk, random(ctruprime.KeySeedSize)); err != nil {
		t.Fatal(err)
	}
	x := x25519Key(t)
	ct, ss := make([]byte, s.CiphertextSize()), make([]byte, s.SharedKeySize())
	if err := s.EncapsulateBytes(ct, ss, s.PublicKeyOf(sk), random(ctruprime.SeedSize)); err != nil {
		t.Fatal(err)
	}
	switch op {
	case opGenerateKey:
		r.own = random(ctruprime.KeySeedSize)
	case opEncapsulate:
		r.peer, r.own = s.PublicKeyOf(sk), random(ctruprime.SeedSize)
	case opDecapsulate:
		r.peer, r.own = ct, sk
	case opServerExchange:
		r.peer, r.own = join(x.PublicKey().Bytes(), s.PublicKeyOf(sk)), random(HybridEncapsulationSeedSize)
	case opClientFinish:
		r.peer, r.own, r.x = join(x25519Key(t).PublicKey().Bytes(), ct), sk, x
	}
	return r
}

// A thousand exchanges that wait for a device are served in a few large
// batches, and one alone in a batch of one.
func TestManyExchangesFewBatches(t *testing.T) {
	const exchanges = 1024
	sim, cfg := simulated(t)
	cfg.GPU.Capacity = exchanges
	p := openTest(t, cfg)
	s := sets[0]
	c := newClient(t, p, s) // by the GPU, alone
	before := p.Stats().GPU.Devices[0]
	if before.Batches != 1 || before.Rows != 1 {
		t.Errorf("%+v", before)
	}
	sim.Hold(0, true)
	var shares, secrets [exchanges][]byte
	var wg sync.WaitGroup
	for i := range exchanges {
		wg.Go(func() {
			var err error
			if shares[i], secrets[i], err = p.ServerExchange(context.Background(), s, c.share); err != nil {
				t.Error(err)
			}
		})
	}
	await(t, "all exchanges in flight", func() bool { return p.Stats().GPU.Devices[0].InFlight == exchanges })
	sim.Hold(0, false)
	wg.Wait()
	st := p.Stats()
	if d := st.GPU.Devices[0]; d.Rows-before.Rows != exchanges || d.Batches-before.Batches > 2 {
		t.Errorf("%d operations in %d batches", d.Rows-before.Rows, d.Batches-before.Batches)
	}
	if n := operationStats(p, s, opServerExchange); n.Served != exchanges || n.ByGPU != exchanges {
		t.Errorf("%+v", n)
	}
	seen := map[string]bool{}
	for i := range exchanges {
		checkExchange(t, s, c, shares[i], secrets[i])
		seen[string(secrets[i])] = true
	}
	if len(seen) != exchanges {
		t.Errorf("%d secrets of %d exchanges differ", len(seen), exchanges)
	}
}

// One call of the driver fails, each in turn, wherever it is made: no exchange
// fails, no secret is wrong, and nothing is left behind.
func TestGPUFaults(t *testing.T) {
	sim, cfg := simulated(t)
	s := sets[0]
	for _, call := range sim.Calls() {
		for site := 0; ; site++ {
			sim.Reset()
			p, err := Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			sim.FailCall(0, call, site, 1, int(driver.ErrInvalidValue), false)
			exchanges(t, p, s, 3, 1)
			fired := sim.LastFault() != ""
			if fired {
				await(t, "the device is open again", func() bool { d := p.Stats().GPU.Devices[0]; return d.State == "open" && d.Reopened == d.Faults })
			}
			if d := p.Stats().GPU.Devices[0]; fired != (d.Faults == 1) {
				t.Errorf("%s, site %d: %+v", call, site, d)
			}
			p.Close()
			if st := sim.Stats(0); st.Leaks() {
				t.Errorf("%s, site %d: left %+v", call, site, st)
			}
			if !fired {
				break
			}
		}
	}
}

// Every other kind of fault that CUDA reports, and a hang: the same.
func TestGPUOtherFaults(t *testing.T) {
	s := sets[0]
	for name, c := range map[string]struct {
		inject func(*simctl.Sim)
		state  string
	}{
		"a kernel faults": {func(sim *simctl.Sim) { sim.FaultLaunch(0, 1, 1, int(driver.ErrIllegalAddress)) }, "open"},
		"a kernel faults, for good": {func(sim *simctl.Sim) {
			sim.SetFaultsPermanent(0, true)
			sim.FaultLaunch(0, 1, 1, int(driver.ErrMisalignedAddress))
		}, "closed"},
		"each kernel faults":    {func(sim *simctl.Sim) { sim.FaultLaunch(0, 0, simctl.Forever, int(driver.ErrLaunchFailed)) }, "closed"},
		"the context is spoilt": {func(sim *simctl.Sim) { sim.Spoil(0, int(driver.ErrECCUncorrectable), false) }, "open"},
		"the device is lost":    {func(sim *simctl.Sim) { sim.Lose(0, int(driver.ErrDeviceUnavailable)) }, "reopening"},
		"a kernel hangs":        {func(sim *simctl.Sim) { sim.HangLaunch(0, 1) }, "open"},
		"no memory when opening again": {func(sim *simctl.Sim) {
			sim.FailCall(0, "cuEventRecord", 1, 1, 1, false)
			sim.FailCall(0, "cuMemAlloc", 0, 2, int(driver.ErrOutOfMemory), false)
		}, "open"},
	} {
		t.Run(name, func(t *testing.T) {
			sim, cfg := simulated(t)
			if name == "a kernel hangs" {
				cfg.GPU.Hang = 50 * time.Millisecond
			}
			p := openTest(t, cfg)
			c.inject(sim)
			exchanges(t, p, s, 4, 2)
			await(t, "the device is "+c.state, func() bool { d := p.Stats().GPU.Devices[0]; return d.Faults > 0 && d.State == c.state })
			exchanges(t, p, s, 2, 1)
			if st := p.Stats(); st.GPU.Faulted == 0 || st.GPU.Mismatches != 0 || st.GPU.Devices[0].LastError == "" {
				t.Errorf("%+v", st.GPU)
			}
		})
	}
}

// Results that are wrong without an error: the first check that meets one closes
// the device, and the caller gets the right result.
func TestSilentCorruption(t *testing.T) {
	sim, cfg := simulated(t)
	cfg.GPU.CheckEvery = 4
	p := openTest(t, cfg)
	s := sets[0]
	sk := make([]byte, s.PrivateKeySize())
	if err := s.GenerateKeyBytes(sk, random(ctruprime.KeySeedSize)); err != nil {
		t.Fatal(err)
	}
	right := func() bool {
		ct, ss := make([]byte, s.CiphertextSize()), make([]byte, s.SharedKeySize())
		if err := s.EncapsulateBytes(ct, ss, s.PublicKeyOf(sk), random(ctruprime.SeedSize)); err != nil {
			t.Fatal(err)
		}
		got, err := p.Decapsulate(t.Context(), s, sk, ct)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Equal(got, ss)
	}
	for i := range 4 {
		if !right() {
			t.Errorf("result %d is wrong before the corruption", i)
		}
	}
	const status = 256 // bytes in front of a batch of one's output
	sim.CorruptCopy(0, 0, simctl.Forever, status+17, 0x20)
	for i := range 3 {
		if right() {
			t.Errorf("result %d is right: nothing was corrupted", i)
		}
	}
	for i := range 5 {
		if !right() {
			t.Errorf("result %d is wrong: the check should have met it", i)
		}
	}
	st := p.Stats().GPU
	if st.Checked != 2 || st.Mismatches != 1 || st.Devices[0].State != "refused: wrong result" || st.Devices[0].Rows != 8 ||
		!strings.Contains(st.Devices[0].LastError, "decapsulate of CTRU-Prime-653") {
		t.Errorf("%+v", st)
	}
}

// openCopying is openTest with exchanges copied from the device, as they are in large
// batches only: it is copies that the simulator corrupts.
func openCopying(t *testing.T, cfg Config) *Provider {
	t.Helper()
	e := newGPUEngine(&cpuEngine{log: cfg.Logger}, cfg.Logger)
	e.every = uint64(cfg.GPU.CheckEvery)
	c := gpu.Config{Library: cfg.GPU.Library, Sets: []int{653}, Workers: 1, Capacity: 64, MaxWait: time.Hour, Hang: time.Hour, CopyExchanges: true, Logger: cfg.Logger}
	if err := e.open(c, cfg.GPU.Schemes); err != nil {
		t.Fatal(err)
	}
	p := open(cfg, cfg.Logger, e)
	t.Cleanup(func() { p.Close() })
	return p
}

// A check looks at every part of an exchange's result.
func TestSilentCorruptionOfExchanges(t *testing.T) {
	s := sets[0]
	const statuses = 256 // bytes in front of a batch of one's output
	for part, at := range map[string]int{"public key": 3, "X25519 secret": 32 + 31, "ciphertext": 64 + 10, "shared key": 64 + s.CiphertextSize() + 7} {
		t.Run(part, func(t *testing.T) {
			sim, cfg := simulated(t)
			cfg.GPU.CheckEvery = 1
			p := openCopying(t, cfg)
			sim.CorruptCopy(0, 0, simctl.Forever, uint64(statuses+at), 0x04)
			exchanges(t, p, s, 1, 1)
			if st := p.Stats().GPU; st.Mismatches != 1 || !strings.Contains(st.Devices[0].LastError, "server-exchange of CTRU-Prime-653") {
				t.Errorf("%+v", st)
			}
		})
	}
}

// A status that the device makes up is not believed.
func TestCorruptStatus(t *testing.T) {
	sim, cfg := simulated(t)
	cfg.GPU.CheckEvery = 0 // what a device says is wrong is always checked
	p := openCopying(t, cfg)
	s := sets[0]
	sim.CorruptCopy(0, 0, simctl.Forever, 0, 1)
	exchanges(t, p, s, 1, 2)
	if st := p.Stats().GPU; st.Mismatches != 1 || st.Devices[0].State != "refused: wrong result" {
		t.Errorf("%+v", st)
	}
}

// Peers are told of their faults, and of no others, by way of a device too.
func TestGPUPeerFaults(t *testing.T) {
	_, cfg := simulated(t)
	p := openTest(t, cfg)
	s := sets[0]
	c := newClient(t, p, s)
	bad := append(bytes.Clone(c.share[:32]), bytes.Repeat([]byte{0xff}, s.PublicKeySize())...)
	zero := append(make([]byte, 32), c.share[32:]...)
	for _, share := range [][]byte{bad, zero} {
		var peer *PeerError
		if _, _, err := p.ServerExchange(t.Context(), s, share); !errors.As(err, &peer) {
			t.Errorf("%v, want a PeerError", err)
		}
	}
	badKey := bytes.Clone(c.sk)
	badKey[0] = 0xff
	var peer *PeerError
	if _, err := p.Decapsulate(t.Context(), s, badKey, make([]byte, s.CiphertextSize())); !errors.Is(err, ctruprime.ErrPrivateKey) || errors.As(err, &peer) {
		t.Errorf("%v, want ErrPrivateKey", err)
	}
	if st := p.Stats().GPU; st.Mismatches != 0 || st.Checked != 3 {
		t.Errorf("%+v", st)
	}
}

// Bad shares in the midst of a batch are told their fault, and nobody else is.
func TestGPUPeerFaultsAmongOthers(t *testing.T) {
	sim, cfg := simulated(t)
	p := openTest(t, cfg)
	s := sets[0]
	c := ownClient(t, s)
	share, want, err := p.ServerExchange(t.Context(), s, c.share)
	if err != nil {
		t.Fatal(err)
	}
	order8, err := hex.DecodeString("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800")
	if err != nil {
		t.Fatal(err)
	}
	lowOrder := [][]byte{make([]byte, 32), append([]byte{1}, make([]byte, 31)...), order8}
	badKey := join(c.share[:32], bytes.Repeat([]byte{0xff}, s.PublicKeySize()))
	sim.Hold(0, true)
	var wg sync.WaitGroup
	server := func(share []byte, bad bool) {
		wg.Go(func() {
			answer, secret, err := p.ServerExchange(context.Background(), s, share)
			if peer := new(PeerError); errors.As(err, &peer) != bad || !bad && err != nil {
				t.Errorf("server: %v; a bad share: %v", err, bad)
			} else if !bad {
				checkExchange(t, s, c, answer, secret)
			}
		})
	}
	finish := func(share []byte, bad bool) {
		wg.Go(func() {
			secret, err := p.ClientFinish(context.Background(), s, c.x, c.sk, share)
			if peer := new(PeerError); errors.As(err, &peer) != bad || !bad && (err != nil || !bytes.Equal(secret, want)) {
				t.Errorf("client: %v; a bad share: %v", err, bad)
			}
		})
	}
	const good = 4
	for range good {
		server(c.share, false)
		finish(share, false)
	}
	server(badKey, true)
	for _, u := range lowOrder {
		server(join(u, c.share[32:]), true)
		finish(join(u, share[32:]), true)
	}
	await(t, "all calls in flight", func() bool { return p.Stats().GPU.Devices[0].InFlight == 2*good+1+2*len(lowOrder) })
	sim.Hold(0, false)
	wg.Wait()
	for op, faults := range map[operation]int{opServerExchange: 1 + len(lowOrder), opClientFinish: len(lowOrder)} {
		if st := operationStats(p, s, op); st.PeerFaults != uint64(faults) || st.ByGPU != st.Served || st.Served < good || st.Failures != 0 {
			t.Errorf("%+v", st)
		}
	}
}

// A context that ends in the middle of a batch ends that call only.
func TestGPUCancel(t *testing.T) {
	sim, cfg := simulated(t)
	p := openTest(t, cfg)
	s := sets[0]
	c := newClient(t, p, s)
	cause := errors.New("the handshake's deadline")
	ctx, cancel := context.WithCancelCause(t.Context())
	sim.Hold(0, true)
	var wg sync.WaitGroup
	const callers = 9
	for i := range callers {
		wg.Go(func() {
			if i%2 == 1 {
				if _, _, err := p.ServerExchange(ctx, s, c.share); !errors.Is(err, cause) {
					t.Errorf("%v, want the cause", err)
				}
				return
			}
			share, secret, err := p.ServerExchange(context.Background(), s, c.share)
			if err != nil {
				t.Error(err)
				return
			}
			checkExchange(t, s, c, share, secret)
		})
	}
	await(t, "all calls in flight", func() bool { return p.Stats().GPU.Devices[0].InFlight == callers })
	cancel(cause)
	await(t, "the calls whose context has ended return", func() bool { return operationStats(p, s, opServerExchange).Failures == callers/2 })
	sim.Hold(0, false)
	wg.Wait()
	if st := operationStats(p, s, opServerExchange); st.Served != callers-callers/2 || st.ByGPU != st.Served {
		t.Errorf("%+v", st)
	}
}

// Where every batch is full, who comes waits for room, and the CPU stands in for no
// more than it takes on.
func TestGPUWaitsForRoom(t *testing.T) {
	sim, cfg := simulated(t)
	cfg.GPU.Capacity, cfg.GPU.Buffers = 1, 2
	p := openTest(t, cfg)
	e := p.engine.(*gpuEngine)
	for range cap(e.standIns) {
		e.standIns <- struct{}{}
	}
	s := sets[0]
	c := ownClient(t, s)
	sim.Hold(0, true)
	var wg sync.WaitGroup
	const callers = 6
	for range callers {
		wg.Go(func() {
			share, secret, err := p.ServerExchange(context.Background(), s, c.share)
			if err != nil {
				t.Error(err)
				return
			}
			checkExchange(t, s, c, share, secret)
		})
	}
	cause := errors.New("the handshake's deadline")
	ctx, cancel := context.WithCancelCause(t.Context())
	await(t, "a call in flight", func() bool { return p.Stats().GPU.Devices[0].InFlight == 1 })
	wg.Go(func() {
		if _, _, err := p.ServerExchange(ctx, s, c.share); !errors.Is(err, cause) {
			t.Errorf("%v, want the cause", err)
		}
	})
	cancel(cause)
	sim.Hold(0, false)
	wg.Wait()
	if st := operationStats(p, s, opServerExchange); st.ByGPU != callers || st.Served != callers || p.Stats().GPU.Full != 0 {
		t.Errorf("%+v", st)
	}
	if n := len(e.standIns); n != cap(e.standIns) {
		t.Errorf("%d of %d stand-ins are left", n, cap(e.standIns))
	}
}

// However full the batches and the CPU are, a request waits no longer than it may.
func TestGPUWaitsForRoomNotForever(t *testing.T) {
	sim, cfg := simulated(t)
	cfg.GPU.Capacity, cfg.GPU.Buffers = 1, 2
	p := openTest(t, cfg)
	e := p.engine.(*gpuEngine)
	e.maxWait = time.Millisecond
	for range cap(e.standIns) {
		e.standIns <- struct{}{}
	}
	s := sets[0]
	c := ownClient(t, s)
	sim.Hold(0, true)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, _, err := p.ServerExchange(context.Background(), s, c.share); err != nil {
			t.Error(err)
		}
	})
	await(t, "a call in flight", func() bool { return p.Stats().GPU.Devices[0].InFlight == 1 })
	share, secret, err := p.ServerExchange(t.Context(), s, c.share)
	if err != nil {
		t.Fatal(err)
	}
	checkExchange(t, s, c, share, secret)
	if n := len(e.standIns); n != cap(e.standIns) || p.Stats().GPU.Full != 1 {
		t.Errorf("%d of %d stand-ins are left; %+v", n, cap(e.standIns), p.Stats().GPU)
	}
	sim.Hold(0, false)
	wg.Wait()
}

// Where every batch stays full, the CPU stands in.
func TestGPUFull(t *testing.T) {
	sim, cfg := simulated(t)
	cfg.GPU.Capacity, cfg.GPU.Buffers = 1, 2
	p := openTest(t, cfg)
	s := sets[0]
	c := newClient(t, p, s)
	sim.Hold(0, true)
	var wg sync.WaitGroup
	wg.Go(func() {
		share, secret, err := p.ServerExchange(context.Background(), s, c.share)
		if err != nil {
			t.Error(err)
			return
		}
		checkExchange(t, s, c, share, secret)
	})
	await(t, "a call in flight", func() bool { return p.Stats().GPU.Devices[0].InFlight == 1 })
	share, secret, err := p.ServerExchange(t.Context(), s, c.share)
	if err != nil {
		t.Fatal(err)
	}
	checkExchange(t, s, c, share, secret)
	if st := p.Stats().GPU; st.Full != 1 {
		t.Errorf("%+v", st)
	}
	if n := len(p.engine.(*gpuEngine).standIns); n != 0 {
		t.Errorf("%d requests still pass for the CPU's", n)
	}
	sim.Hold(0, false)
	wg.Wait()
}

// Batch calls pass through many device batches, and what they refuse is refused.
func TestGPUBatchCalls(t *testing.T) {
	_, cfg := simulated(t)
	cfg.GPU.Capacity, cfg.GPU.Buffers = 8, 3
	p := openTest(t, cfg)
	s := sets[0]
	const n, badKey = 30, 11
	sks, err := p.GenerateKeyBatch(t.Context(), s, n)
	if err != nil {
		t.Fatal(err)
	}
	pks := make([][]byte, n)
	for i, sk := range sks {
		pks[i] = s.PublicKeyOf(sk)
	}
	pks[badKey] = bytes.Repeat([]byte{0xff}, s.PublicKeySize())
	enc, err := p.EncapsulateBatch(t.Context(), s, pks)
	if err != nil {
		t.Fatal(err)
	}
	cts := make([][]byte, n)
	for i, r := range enc {
		if (r.Err != nil) != (i == badKey) {
			t.Errorf("encapsulation %d: %v", i, r.Err)
		}
		cts[i] = r.Ciphertext
	}
	cts[badKey] = make([]byte, s.CiphertextSize())
	dec, err := p.DecapsulateBatch(t.Context(), s, sks, cts)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range dec {
		if r.Err != nil || i != badKey && !bytes.Equal(r.SharedKey, enc[i].SharedKey) {
			t.Errorf("decapsulation %d: %v", i, r.Err)
		}
	}
	if st := p.Stats().GPU; st.Served != 3*n || st.Full != 0 || st.Mismatches != 0 {
		t.Errorf("%+v", st)
	}
}

// The key pool is filled by the device, in groups of any size.
func TestGPUKeyPool(t *testing.T) {
	_, cfg := simulated(t)
	cfg.KeyPoolSize = 8
	p := openTest(t, cfg)
	s := sets[0]
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			sk, err := p.GenerateKey(context.Background(), s)
			if err != nil {
				t.Error(err)
				return
			}
			ct, ss := make([]byte, s.CiphertextSize()), make([]byte, s.SharedKeySize())
			got := make([]byte, s.SharedKeySize())
			if err := errors.Join(s.EncapsulateBytes(ct, ss, s.PublicKeyOf(sk), random(ctruprime.SeedSize)), s.DecapsulateBytes(got, sk, ct)); err != nil || !bytes.Equal(got, ss) {
				t.Errorf("a key that does not work (%v)", err)
			}
		})
	}
	wg.Wait()
	if st := operationStats(p, s, opGenerateKey); st.ByGPU < 12 || st.Failures != 0 {
		t.Errorf("%+v", st)
	}
}

// Keys that are only there parsed, and parameter sets that the device does not
// serve, are the CPU's.
func TestGPUNotItsOwn(t *testing.T) {
	_, cfg := simulated(t)
	p := openTest(t, cfg)
	for _, scheme := range p.Schemes()[:2] {
		pk, sk, err := scheme.GenerateKeyPair()
		if err != nil {
			t.Fatal(err)
		}
		ct, ss, err := scheme.Encapsulate(pk)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := scheme.Decapsulate(sk, ct); err != nil || !bytes.Equal(got, ss) {
			t.Errorf("%s: %v", scheme.Name(), err)
		}
	}
	exchanges(t, p, sets[1], 1, 1)
	if st := p.Stats().GPU; st.Served != 1 { // the first key pair
		t.Errorf("%+v", st)
	}
}

// EngineAuto with a device: one call alone is the CPU's.
func TestAutoWithGPU(t *testing.T) {
	_, cfg := simulated(t)
	cfg.Engine = EngineAuto
	p := openTest(t, cfg)
	s := sets[0]
	for range 5 {
		exchanges(t, p, s, 1, 1)
	}
	if st := p.Stats(); st.Engine != EngineAuto || st.GPU.Served != 0 || len(st.Routing.Routes) == 0 {
		t.Errorf("%+v", st)
	}
	exchanges(t, p, s, 16, 2) // whoever serves which
}

func TestGPUConfig(t *testing.T) {
	_, cfg := simulated(t)
	for name, change := range map[string]func(*Config){
		"Capacity":              func(c *Config) { c.GPU.Capacity = -1 },
		"Buffers":               func(c *Config) { c.GPU.Buffers = 1 },
		"device 3":              func(c *Config) { c.GPU.Devices = []int{3} },
		"MaxWait":               func(c *Config) { c.GPU.MaxWait = -1 },
		"unknown parameter set": func(c *Config) { c.GPU.Schemes = []*ctruprime.Scheme{nil} },
		`"fast"`:                func(c *Config) { c.Engine = "fast" },
	} {
		for _, engine := range []Engine{EngineGPU, EngineAuto} {
			wrong := cfg
			wrong.Engine = engine
			change(&wrong)
			if _, err := Open(wrong); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%v, want an error about %s", err, name)
			}
		}
	}
	wrong := cfg
	wrong.GPU.Library = "/no/such/libcuda.so.1"
	if _, err := Open(wrong); !errors.Is(err, errNoGPU) || !strings.Contains(err.Error(), `Engine is "gpu"`) {
		t.Errorf("%v, want errNoGPU", err)
	}
	wrong.Engine = EngineAuto
	p := openTest(t, wrong)
	if st := p.Stats(); st.Engine != EngineCPU {
		t.Errorf("%q without a GPU", st.Engine)
	}
}

// Bulks by a device: the same as by the CPU, and its results are sampled.
func TestGPUBulk(t *testing.T) {
	sim, cfg := simulated(t)
	cfg.GPU.CheckEvery = 3
	p := openTest(t, cfg)
	s := sets[0]
	bulkRoundTrip(t, p, s, 12, 5)
	bulkRoundTrip(t, p, sets[1], 2, 1) // not the device's
	st := p.Stats().GPU
	if st.Mismatches != 0 || st.Checked < 51/3 || st.Devices[0].JobRows != 51 || st.Faulted != 0 {
		t.Errorf("%+v", st)
	}
	if n := operationStats(p, s, opGenerateKey); n.ByGPU != 12 {
		t.Errorf("%+v", n)
	}

	// A device that fails leaves its rows to the CPU.
	sim.FailCall(0, "cuEventSynchronize", 0, 1, int(driver.ErrInvalidValue), false)
	bulkRoundTrip(t, p, s, 4, 2)
	if st := p.Stats().GPU; st.Faulted < 4 || st.Devices[0].Faults != 1 {
		t.Errorf("%+v", st)
	}
}

// A wrong result in a Bulk that is sampled: all of the Bulk is computed again.
func TestGPUBulkCorruption(t *testing.T) {
	sim, cfg := simulated(t)
	cfg.GPU.CheckEvery = 1
	p := openTest(t, cfg)
	sim.CorruptCopy(0, 0, 1, 1500, 0x10)
	bulkRoundTrip(t, p, sets[0], 6, 2)
	if st := p.Stats().GPU; st.Mismatches != 1 || st.Devices[0].State != "refused: wrong result" {
		t.Errorf("%+v", st)
	}
}

// On a driver or a card too old the GPU engine does not open, the automatic one serves from the CPU, and what both say names
// the version that is there and the one that is needed.
func TestTooOldForGPU(t *testing.T) {
	for name, c := range map[string]struct {
		age  func(*simctl.Sim)
		says string
	}{
		"driver": {func(sim *simctl.Sim) { sim.SetDriverVersion(10020) }, "the NVIDIA driver is too old: it has CUDA 10.2, CUDA 11.0 or later is needed"},
		"card":   {func(sim *simctl.Sim) { sim.SetCompute(0, 7, 5) }, "the device is too old: it has compute capability 7.5, 8.0 or later is needed"},
	} {
		t.Run(name, func(t *testing.T) {
			sim, cfg := simulated(t)
			c.age(sim)
			if _, err := Open(cfg); !errors.Is(err, driver.ErrTooOld) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("engine gpu: %v", err)
			}
			var log bytes.Buffer
			cfg.Engine, cfg.Logger = EngineAuto, slog.New(slog.NewTextHandler(&log, nil))
			p := openTest(t, cfg)
			if got := log.String(); !strings.Contains(got, c.says) || !strings.Contains(got, "level=WARN") {
				t.Errorf("engine auto logs %s", got)
			}
			if st := p.Stats(); st.Engine != EngineCPU {
				t.Errorf("engine %s", st.Engine)
			}
			s := sets[0]
			sk, err := p.GenerateKey(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			ct, ss, err := p.Encapsulate(t.Context(), s, s.PublicKeyOf(sk))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := p.Decapsulate(t.Context(), s, sk, ct); err != nil || !bytes.Equal(got, ss) {
				t.Error("the CPU's keys differ, or", err)
			}
		})
	}
}
