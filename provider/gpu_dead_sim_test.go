//go:build sim && !nogpu

package provider

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

// A device that dies with rows in its hands costs nothing but time: the others do
// them, and the CPU does none.
func TestGPUDeadDevice(t *testing.T) {
	sim, cfg := simulated(t)
	const devices, dead = 3, 1
	sim.SetDeviceCount(devices)
	cfg.GPU.Capacity = 8
	p := openTest(t, cfg)
	s := sets[0]
	c := newClient(t, p, s)

	// Calls of one operation.
	const exchanges = 4 * devices
	var shares, secrets [exchanges][]byte
	dies(t, p, sim, dead, exchanges, func() {
		var wg sync.WaitGroup
		for i := range exchanges {
			wg.Go(func() {
				var err error
				if shares[i], secrets[i], err = p.ServerExchange(context.Background(), s, c.share); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
	for i := range exchanges {
		checkExchange(t, s, c, shares[i], secrets[i])
	}

	// A call of many.
	sks, err := p.GenerateKeyBatch(t.Context(), s, 8*devices)
	if err != nil {
		t.Fatal(err)
	}
	pks := make([][]byte, len(sks))
	for i, sk := range sks {
		pks[i] = s.PublicKeyOf(sk)
	}
	dies(t, p, sim, dead, len(pks), func() {
		made, err := p.EncapsulateBatch(context.Background(), s, pks)
		if err != nil {
			t.Error(err)
		}
		for i, r := range made {
			ss := make([]byte, s.SharedKeySize())
			if r.Err != nil || s.DecapsulateBytes(ss, sks[i], r.Ciphertext) != nil || !bytes.Equal(ss, r.SharedKey) {
				t.Errorf("encapsulation %d is wrong, or %v", i, r.Err)
			}
		}
	})
	st := p.Stats()
	if st.GPU.Faulted != 0 || st.GPU.Full != 0 || st.GPU.Unavailable != 0 || st.GPU.Devices[dead].Faults != 2 {
		t.Errorf("%+v", st.GPU)
	}
	if n := operationStats(p, s, opServerExchange); n.ByGPU != exchanges {
		t.Errorf("%+v", n)
	}
	if n := operationStats(p, s, opEncapsulate); n.ByGPU != uint64(len(pks)) {
		t.Errorf("%+v", n)
	}
}

// dies runs calls of n operations, has a device die when all of them are on their way, some on each device, and brings it back afterwards.
func dies(t *testing.T, p *Provider, sim *simctl.Sim, dead, n int, calls func()) {
	t.Helper()
	devices := p.Stats().GPU.Devices
	for d := range devices {
		sim.Hold(d, true)
	}
	done := make(chan struct{})
	go func() {
		calls()
		close(done)
	}()
	await(t, "all are in flight", func() bool {
		sum, each := 0, true
		for _, d := range p.Stats().GPU.Devices {
			sum += d.InFlight
			each = each && d.InFlight > 0
		}
		return sum == n && each
	})
	sim.Lose(dead, int(driver.ErrDeviceUnavailable))
	for d := range devices {
		sim.Hold(d, false)
	}
	<-done
	await(t, "the device has failed", func() bool { return p.Stats().GPU.Devices[dead].State == "reopening" })
	sim.ClearFaults(dead)
	await(t, "the device is back", func() bool { return p.Stats().GPU.Devices[dead].State == "open" })
}
