//go:build sim && !nogpu

package provider

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

// A device that counts as hung with a Bulk in its hands and comes back afterwards finds
// nobody: what the Bulk's owner was told is lost is not touched.
func TestGPUBulkComesBackLate(t *testing.T) {
	sim, cfg := simulated(t)
	// Its context stays retained as long as the process lives, so it is one that no other test uses.
	const device = simctl.MaxDevices - 1
	sim.SetDeviceCount(simctl.MaxDevices)
	t.Cleanup(sim.Reset)
	cfg.GPU.Devices, cfg.GPU.Hang, cfg.GPU.CheckEvery = []int{device}, 50*time.Millisecond, 1
	before := goleak.IgnoreCurrent()
	p, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := &Bulk{Scheme: sets[0], Operation: BulkGenerateKeys, Rows: 3}
	pin := func(n int) []byte {
		m, err := p.AllocPinned(n)
		if err != nil {
			t.Fatal(err)
		}
		return m.Bytes
	}
	b.Input, b.Output, b.Status = pin(3*b.InputSize()), pin(3*b.OutputSize()), pin(3*bulkStatusSize)
	sim.HangLaunch(device, 0)
	if err := p.RunBulk(t.Context(), b); !errors.Is(err, ErrMemoryLost) {
		t.Errorf("%v, want ErrMemoryLost", err)
	}
	p.Close()
	sim.ReleaseHang(device)
	await(t, "the device's thread has come back", func() bool { return goleak.Find(before) == nil })
	if st := p.Stats().GPU; st.Checked != 0 || st.Devices[0].JobRows != 0 {
		t.Errorf("%+v", st)
	}
}
