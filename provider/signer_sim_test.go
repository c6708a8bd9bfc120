//go:build sim && !nogpu

package provider

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

func simulatedSigner(t *testing.T) (*simctl.Sim, Config) {
	t.Helper()
	sim, cfg := simulated(t)
	cfg.GPU.Sign = true
	return sim, cfg
}

// Signatures by a device are signatures, of every digest.
func TestGPUSigner(t *testing.T) {
	_, cfg := simulatedSigner(t)
	p := openTest(t, cfg)
	s := newSigner(t, p, p256Key(t))
	signAll(t, s, 4, 3)
	checkEdgeDigests(t, s)
	st := p.Stats()
	if n := st.Signatures; n.Served != 18 || n.ByGPU != 18 || n.Failures != 0 {
		t.Errorf("%+v", n)
	}
	if st.GPU.Served != 18 || st.GPU.Mismatches != 0 || st.GPU.Devices[0].Rows != 18 {
		t.Errorf("%+v", st.GPU)
	}
}

// A key is known to all devices, and where one fails the others sign.
func TestGPUSignerDevices(t *testing.T) {
	sim, cfg := simulatedSigner(t)
	sim.SetDeviceCount(2)
	cfg.GPU.Capacity = 4
	p := openTest(t, cfg)
	s := newSigner(t, p, p256Key(t))
	signAll(t, s, 12, 2)
	for i, d := range p.Stats().GPU.Devices {
		if d.Rows == 0 {
			t.Errorf("device %d signs nothing", i)
		}
	}
	sim.Lose(0, int(driver.ErrDeviceUnavailable))
	await(t, "the loss is noticed", func() bool {
		signAll(t, s, 6, 1)
		return p.Stats().GPU.Devices[0].State == "reopening"
	})
	before := p.Stats().Signatures.ByGPU
	signAll(t, s, 1, 3)
	if st := p.Stats(); st.Signatures.ByGPU-before != 3 || st.Signatures.Failures != 0 || st.GPU.Mismatches != 0 {
		t.Errorf("%+v, %+v", st.GPU, st.Signatures)
	}
}

// Without added randomness a device's signature is the deterministic one of RFC
// 6979, bit for bit that of crypto/ecdsa; with it, two of one digest differ.
func TestGPUSignerEqualsCryptoECDSA(t *testing.T) {
	_, cfg := simulatedSigner(t)
	p := openTest(t, cfg)
	s := newSigner(t, p, p256Key(t))
	digests := append(edgeDigests(), random(digestSize), random(digestSize), random(digestSize))
	batch := make([]request, len(digests))
	for i, digest := range digests {
		batch[i] = request{op: opSign, key: s.key, peer: digest, out: make([]byte, maxSignatureSize)}
	}
	p.engine.serve(t.Context(), batch)
	for i := range batch {
		want, err := s.key.private.Sign(nil, batch[i].peer, crypto.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		if r := &batch[i]; r.err != nil || !r.device || !bytes.Equal(derOf(r.out), want) {
			t.Errorf("digest %x: %x (%v), want %x", r.peer, r.out, r.err, want)
		}
	}
	if d := p.Stats().GPU.Devices[0]; d.Batches != 1 || d.Rows != uint64(len(digests)) {
		t.Errorf("%d rows in %d batches", d.Rows, d.Batches)
	}
	first, err := s.Sign(rand.Reader, digests[0], crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := s.Sign(rand.Reader, digests[0], crypto.SHA256); err != nil || bytes.Equal(first, second) {
		t.Errorf("two signatures of one digest are the same (%v)", err)
	}
}

// A batch of two keys' requests is signed by the right ones, and by the CPU for a
// key that no device has.
func TestGPUSignerKeys(t *testing.T) {
	_, cfg := simulatedSigner(t)
	p := openTest(t, cfg)
	a, b := newSigner(t, p, p256Key(t)), newSigner(t, p, p256Key(t))
	c, err := p.Signer(p256Key(t)) // that the device does not know
	if err != nil {
		t.Fatal(err)
	}
	var batch []request
	for i := range 12 {
		s := []*Signer{a, a, b, c}[i%4]
		batch = append(batch, request{op: opSign, key: s.key, peer: random(digestSize), own: random(digestSize), out: make([]byte, maxSignatureSize)})
	}
	p.engine.serve(t.Context(), batch)
	for i := range batch {
		if r := &batch[i]; r.err != nil || !verifies(r) || r.device != (r.key != c.key) {
			t.Errorf("request %d: %v, made by a device: %v", i, r.err, r.device)
		}
	}
	var wg sync.WaitGroup
	for _, s := range []*Signer{a, b} {
		wg.Go(func() { signAll(t, s, 3, 2) })
	}
	wg.Wait()
	if st := p.Stats().Signatures; st.Served != 12 || st.ByGPU != 12 {
		t.Errorf("%+v", st)
	}
}

// Handshakes with a certificate whose signatures a device makes, in few batches.
func TestGPUSignerHandshakes(t *testing.T) {
	sim, cfg := simulatedSigner(t)
	p := openTest(t, cfg)
	server, pool := serverConfig(t, newSigner(t, p, p256Key(t)))
	before := p.Stats().GPU.Devices[0].Batches
	const n = 32
	sim.Hold(0, true)
	var wg sync.WaitGroup
	wg.Go(func() { handshakes(t, server, pool, n) })
	await(t, "all signatures in flight", func() bool { return p.Stats().GPU.Devices[0].InFlight == n })
	sim.Hold(0, false)
	wg.Wait()
	st := p.Stats()
	if st.Signatures.Served != n+1 || st.Signatures.ByGPU != n+1 || st.GPU.Devices[0].Batches-before > 2 {
		t.Errorf("%+v, %+v", st.Signatures, st.GPU.Devices[0])
	}
}

// The first signature by a key is the CPU's, and makes the devices know the key.
func TestGPUSignerAdopts(t *testing.T) {
	_, cfg := simulatedSigner(t)
	p := openTest(t, cfg)
	s, err := p.Signer(p256Key(t))
	if err != nil {
		t.Fatal(err)
	}
	signAll(t, s, 1, 1)
	if st := p.Stats().Signatures; st.ByGPU != 0 {
		t.Errorf("%+v", st)
	}
	await(t, "the device knows the key", func() bool { return s.key.device.Load() != nil })
	await(t, "the next key's turn", func() bool { return !p.adopting.Load() })
	signAll(t, s, 1, 2)
	if st := p.Stats().Signatures; st.Served != 3 || st.ByGPU != 2 || p.adopting.Load() {
		t.Errorf("%+v", st)
	}

	// A key that is refused is not asked about at every signature.
	var logged bytes.Buffer
	p.log = slog.New(slog.NewTextHandler(&logged, nil))
	refused, err := p.Signer(p256Key(t))
	if err != nil {
		t.Fatal(err)
	}
	refused.key.number = refused.key.number[1:]
	p.adopt(refused.key)
	await(t, "the key is refused", func() bool { return refused.key.refused.Load() != 0 })
	await(t, "the next key's turn", func() bool { return !p.adopting.Load() })
	if p.adopt(refused.key); p.adopting.Load() {
		t.Error("it is asked about again")
	}
	if n := strings.Count(logged.String(), "provider: the CPU signs with a key"); n != 1 {
		t.Errorf("logged %q", &logged)
	}
}

// Whatever happens to a device, nobody gets a wrong signature, or none.
func TestGPUSignerFaults(t *testing.T) {
	for name, c := range map[string]struct {
		inject func(*simctl.Sim)
		state  string
	}{
		"a copy fails":          {func(sim *simctl.Sim) { sim.FailCall(0, "cuMemcpyHtoDAsync", 1, 1, int(driver.ErrInvalidValue), false) }, "open"},
		"a kernel faults":       {func(sim *simctl.Sim) { sim.FaultLaunch(0, 1, 1, int(driver.ErrIllegalAddress)) }, "open"},
		"each kernel faults":    {func(sim *simctl.Sim) { sim.FaultLaunch(0, 0, simctl.Forever, int(driver.ErrLaunchFailed)) }, "closed"},
		"the context is spoilt": {func(sim *simctl.Sim) { sim.Spoil(0, int(driver.ErrECCUncorrectable), false) }, "open"},
		"the device is lost":    {func(sim *simctl.Sim) { sim.Lose(0, int(driver.ErrDeviceUnavailable)) }, "reopening"},
		"a kernel hangs":        {func(sim *simctl.Sim) { sim.HangLaunch(0, 1) }, "open"},
	} {
		t.Run(name, func(t *testing.T) {
			sim, cfg := simulatedSigner(t)
			if name == "a kernel hangs" {
				cfg.GPU.Hang = 100 * time.Millisecond
			}
			p := openTest(t, cfg)
			s := newSigner(t, p, p256Key(t))
			c.inject(sim)
			signAll(t, s, 4, 2)
			await(t, "the device is "+c.state, func() bool { d := p.Stats().GPU.Devices[0]; return d.Faults > 0 && d.State == c.state })
			signAll(t, s, 2, 1)
			st := p.Stats()
			if st.GPU.Faulted == 0 || st.GPU.Mismatches != 0 || st.Signatures.Served != 10 || st.Signatures.Failures != 0 {
				t.Errorf("%+v, %+v", st.GPU, st.Signatures)
			}
			if c.state == "open" && name != "a kernel hangs" && st.Signatures.ByGPU == 0 { // on a slow machine every kernel seems to
				t.Error("the device that is open again does not sign")
			}
		})
	}
}

// The check on the device finds a signature that was spoilt, and the device is not
// used any more.
func TestGPUSignerDeviceCheck(t *testing.T) {
	_, cfg := simulatedSigner(t)
	p := openTest(t, cfg)
	s := newSigner(t, p, p256Key(t))
	// A private key that is not the public key's spoils every signature.
	number, err := p256Key(t).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	wrong := &signingKey{private: s.key.private, number: number}
	if err := p.engine.adopt(wrong); err != nil {
		t.Fatal(err)
	}
	signAll(t, &Signer{p, wrong}, 1, 1)
	st := p.Stats()
	if st.GPU.Mismatches != 1 || st.GPU.Devices[0].State != "refused: wrong result" || !strings.Contains(st.GPU.Devices[0].LastError, "sign of ECDSA-P-256") {
		t.Errorf("%+v", st.GPU)
	}
	signAll(t, s, 1, 2)
	if st := p.Stats().Signatures; st.Served != 3 || st.ByGPU != 0 {
		t.Errorf("%+v", st)
	}
}

// What is spoilt behind the device's own check, on the way to the host, the CPU's
// sample finds; and a verdict that is made up is not believed.
func TestGPUSignerCorruption(t *testing.T) {
	const status = 256 // bytes in front of a batch of one's output
	for name, offset := range map[string]uint64{"r": status + 17, "s": status + 60, "verdict": 0} {
		t.Run(name, func(t *testing.T) {
			sim, cfg := simulatedSigner(t)
			cfg.GPU.CheckEvery = 2
			p := openTest(t, cfg)
			s := newSigner(t, p, p256Key(t))
			signAll(t, s, 1, 3)
			sim.CorruptCopy(0, 0, simctl.Forever, offset, 1)
			signAll(t, s, 1, 1) // the fourth: one that is checked
			signAll(t, s, 1, 2)
			if st := p.Stats(); st.GPU.Checked != 2 || st.GPU.Mismatches != 1 || st.GPU.Devices[0].State != "refused: wrong result" || st.Signatures.ByGPU != 3 {
				t.Errorf("%+v, %+v", st.GPU, st.Signatures)
			}
		})
	}
}

// Where every batch is full, the CPU signs.
func TestGPUSignerFull(t *testing.T) {
	sim, cfg := simulatedSigner(t)
	cfg.GPU.Capacity, cfg.GPU.Buffers = 1, 2
	p := openTest(t, cfg)
	s := newSigner(t, p, p256Key(t))
	sim.Hold(0, true)
	var wg sync.WaitGroup
	wg.Go(func() { signAll(t, s, 1, 1) })
	await(t, "a signature in flight", func() bool { return p.Stats().GPU.Devices[0].InFlight == 1 })
	signAll(t, s, 1, 1)
	sim.Hold(0, false)
	wg.Wait()
	if st := p.Stats(); st.GPU.Full != 1 || st.Signatures.Served != 2 || st.Signatures.ByGPU != 1 {
		t.Errorf("%+v, %+v", st.GPU, st.Signatures)
	}
}

// Where a batch is late, the CPU signs.
func TestGPUSignerLate(t *testing.T) {
	sim, cfg := simulatedSigner(t)
	cfg.GPU.MaxWait = 20 * time.Millisecond
	p := openTest(t, cfg)
	s := newSigner(t, p, p256Key(t))
	sim.Hold(0, true)
	signAll(t, s, 1, 1)
	sim.Hold(0, false)
	if st := p.Stats(); st.GPU.Late != 1 || st.Signatures.Served != 1 || st.Signatures.ByGPU != 0 {
		t.Errorf("%+v, %+v", st.GPU, st.Signatures)
	}
}

// EngineAuto leaves one signature alone to the CPU, and a device without GPU.Sign
// gets none.
func TestAutoSigner(t *testing.T) {
	_, cfg := simulatedSigner(t)
	cfg.Engine = EngineAuto
	p := openTest(t, cfg)
	s := newSigner(t, p, p256Key(t))
	signAll(t, s, 1, 5)
	if st := p.Stats(); st.Signatures.ByGPU != 0 || len(st.Routing.Routes) != 1 || st.Routing.Routes[0].CPUCost == 0 {
		t.Errorf("%+v, %+v", st.Signatures, st.Routing)
	}
	signAll(t, s, 16, 2) // whoever serves which
	p.Close()

	cfg.Engine, cfg.GPU.Sign = EngineGPU, false
	p = openTest(t, cfg)
	if s, err := p.Signer(p256Key(t)); err != nil {
		t.Fatal(err)
	} else {
		signAll(t, s, 4, 2)
	}
	if st := p.Stats(); p.adopting.Load() || st.Signatures.Served != 8 || st.GPU.Served != 0 {
		t.Errorf("%+v", st)
	}
}

// Closing in the midst of signatures fails none: those that come later are
// crypto/ecdsa's.
func TestGPUSignerClose(t *testing.T) {
	_, cfg := simulatedSigner(t)
	p := openTest(t, cfg)
	key := p256Key(t)
	s := newSigner(t, p, key)
	var wg sync.WaitGroup
	wg.Go(func() { signAll(t, s, 6, 4) })
	await(t, "the device signs", func() bool { return p.Stats().Signatures.ByGPU > 0 })
	p.Close()
	wg.Wait()
	if sig, err := s.Sign(rand.Reader, make([]byte, digestSize), crypto.SHA256); err != nil || !ecdsa.VerifyASN1(&key.PublicKey, make([]byte, digestSize), sig) {
		t.Errorf("%x (%v)", sig, err)
	}
}
