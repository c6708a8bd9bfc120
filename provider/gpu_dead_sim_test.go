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
	const devices = 3
	sim.SetDeviceCount(devices)
	cfg.GPU.Capacity = 8
	p := openTest(t, cfg)
	s := sets[0]
	c := newClient(t, p, s)

	// Calls of one operation.
	const exchanges = 4 * devices
	var shares, secrets [exchanges][]byte
	first := dies(t, p, sim, exchanges, func() {
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
	second := dies(t, p, sim, len(pks), func() {
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
	if st.GPU.Faulted != 0 || st.GPU.Full != 0 || st.GPU.Unavailable != 0 || st.GPU.Devices[first].Faults == 0 || st.GPU.Devices[second].Faults == 0 {
		t.Errorf("%+v", st.GPU)
	}
	if n := operationStats(p, s, opServerExchange); n.ByGPU != exchanges {
		t.Errorf("%+v", n)
	}
	if n := operationStats(p, s, opEncapsulate); n.ByGPU != uint64(len(pks)) {
		t.Errorf("%+v", n)
	}
}

// dies runs calls of n operations, has a device die that has some of them when all are on their way, brings it back afterwards and returns its
// number.
func dies(t *testing.T, p *Provider, sim *simctl.Sim, n int, calls func()) (dead int) {
	t.Helper()
	devices := func() []DeviceStats { return p.Stats().GPU.Devices }
	hold := func(on bool) {
		for d := range devices() {
			sim.Hold(d, on)
		}
	}
	hold(true)
	t.Cleanup(func() { hold(false) })
	done := make(chan struct{})
	go func() {
		calls()
		close(done)
	}()
	await(t, "all are in flight", func() bool {
		sum := 0
		for d, st := range devices() {
			if sum += st.InFlight; st.InFlight > 0 {
				dead = d
			}
		}
		return sum == n
	})
	sim.Lose(dead, int(driver.ErrDeviceUnavailable))
	hold(false)
	<-done
	await(t, "the device has failed", func() bool { return devices()[dead].State == "reopening" })
	sim.ClearFaults(dead)
	await(t, "the device is back", func() bool { return devices()[dead].State == "open" })
	return dead
}
